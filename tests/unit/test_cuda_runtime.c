/* The runtime that is found at run time: whole or not at all, no context made, no error and no device left behind. */
#include "fake_cuda_calls.h"

#include "cuda_runtime.h"

#define MS INT64_C(1000000)

static struct tml_cuda runtime;

static int fresh(void **state)
{
    (void)state;
    memset(&runtime, 0, sizeof runtime);
    fake_cuda_reset();
    return tml_cuda_find(&runtime) ? 0 : -1;
}

static int fresh_with_device_0(void **state)
{
    int status = fresh(state);
    fake_cuda_activate_context(0);
    return status == 0 && tml_cuda_device_live(&runtime, 0) ? 0 : -1;
}

static int current_device(void)
{
    int device = -1;
    assert_int_equal(cuda.cudaGetDevice(&device), 0);
    return device;
}

/* Finds with TRACEML_CUDART set to `path`, and puts the variable back. */
static bool find_at(struct tml_cuda *table, const char *path)
{
    char *kept = strdup(getenv("TRACEML_CUDART"));
    setenv("TRACEML_CUDART", path, 1);
    bool found = tml_cuda_find(table);
    setenv("TRACEML_CUDART", kept, 1);
    free(kept);
    return found;
}

static void a_library_that_lacks_symbols_is_no_runtime(void **state)
{
    (void)state;
    struct tml_cuda table = {0};
    assert_false(find_at(&table, "libm.so.6"));
    assert_false(tml_cuda_usable(&table));
    assert_false(tml_cuda_device_live(&table, 0));
    assert_false(find_at(&table, "/nonexistent/libcudart.so"));
    assert_false(tml_cuda_usable(&table));
    assert_true(tml_cuda_find(&table)); /* a failure before stands in no way */
    assert_true(tml_cuda_usable(&table));
    assert_true(find_at(&table, "/nonexistent/libcudart.so")); /* found once: nothing is looked for again */
}

static void looking_makes_no_context(void **state)
{
    (void)state;
    assert_int_equal(fake_cuda_all_calls(), 0); /* of the runtime; it was only looked up */
    for (int device = -1; device <= TML_CUDA_MAX_DEVICES; device++)
        assert_false(tml_cuda_device_live(&runtime, device));
    char name[64];
    assert_false(tml_cuda_device_name(&runtime, 0, name, sizeof name));
    for (int device = 0; device < 2; device++)
        assert_false(fake_cuda_context_active(device));
}

static void a_device_is_live_once_somebody_else_has_used_it(void **state)
{
    (void)state;
    fake_cuda_activate_context(1);
    assert_true(tml_cuda_device_live(&runtime, 1));
    assert_false(tml_cuda_device_live(&runtime, 0));
    assert_false(fake_cuda_context_active(0));
    uint64_t asked = fake_cuda_calls("cuDevicePrimaryCtxGetState");
    assert_true(tml_cuda_device_live(&runtime, 1));
    assert_int_equal(fake_cuda_calls("cuDevicePrimaryCtxGetState"), asked); /* sticky: asked once */
    char name[64] = "";
    assert_true(tml_cuda_device_name(&runtime, 1, name, sizeof name));
    assert_true(name[0] != '\0');
}

static void a_failed_call_of_ours_is_not_the_user_s_last_error(void **state)
{
    (void)state;
    static const char *const calls[] = {"cudaEventCreateWithFlags", "cuStreamIsCapturing", "cuEventRecord",
                                        "cudaEventQuery", "cudaEventElapsedTime"};
    float ms;
    for (unsigned i = 0; i < sizeof calls / sizeof *calls; i++) {
        void *event = tml_cuda_event_create(&runtime, 0);
        assert_non_null(event);
        assert_int_equal(tml_cuda_record(&runtime, 0, NULL, event), 0);
        assert_true(fake_cuda_fail_call(calls[i], 1, 1));
        bool failed = (i == 0 && !tml_cuda_event_create(&runtime, 0)) ||
                      ((i == 1 || i == 2) && tml_cuda_record(&runtime, 0, NULL, event) == 1) ||
                      (i == 3 && tml_cuda_query(&runtime, event) == 1) ||
                      (i == 4 && tml_cuda_elapsed_ns(&runtime, event, event) == TML_NS_NONE);
        if (!failed)
            fail_msg("%s did not fail", calls[i]);
        assert_int_equal(cuda.cudaPeekAtLastError(), 0);
        assert_true(tml_cuda_usable(&runtime)); /* such an error is not the device's */
    }
    assert_int_equal(cuda.cudaEventElapsedTime(&ms, NULL, NULL), 400); /* the user's own stays */
    assert_int_equal(tml_cuda_query(&runtime, tml_cuda_event_create(&runtime, 0)), 0);
    assert_int_equal(cuda.cudaGetLastError(), 400);
}

struct other_thread {
    void *event, *stream;
    int error;
};

static void *record_elsewhere(void *argument)
{
    struct other_thread *here = argument;
    here->error = tml_cuda_record(&runtime, 0, here->stream, here->event);
    return NULL;
}

static void a_thread_without_a_context_of_its_own_records_through_the_runtime(void **state)
{
    (void)state;
    pthread_t thread;
    void *const streams[] = {NULL, fake_cuda_calls_stream(true)};
    for (unsigned i = 0; i < 2; i++) {
        struct other_thread other = {tml_cuda_event_create(&runtime, 0), streams[i], -1};
        assert_int_equal(pthread_create(&thread, NULL, record_elsewhere, &other), 0);
        pthread_join(thread, NULL);
        assert_int_equal(other.error, 0);
        assert_int_equal(fake_cuda_calls("cudaEventRecord"), i + 1);
    }
    assert_int_equal(fake_cuda_calls("cuEventRecord"), 0); /* the driver has said so when asked for a capture */
    assert_true(tml_cuda_usable(&runtime));
}

static void a_device_error_ends_all_calls(void **state)
{
    (void)state;
    void *event = tml_cuda_event_create(&runtime, 0);
    assert_int_equal(tml_cuda_record(&runtime, 0, NULL, event), 0);
    fake_cuda_kill_device(0, 719);
    assert_int_equal(tml_cuda_query(&runtime, event), 719);
    assert_int_equal(cuda.cudaPeekAtLastError(), 0);
    assert_false(tml_cuda_usable(&runtime));
    uint64_t calls = fake_cuda_all_calls();
    assert_false(tml_cuda_device_live(&runtime, 0));
    assert_true(tml_cuda_elapsed_ns(&runtime, event, event) == TML_NS_NONE);
    tml_cuda_prepare_sampler(&runtime, 0);
    assert_int_equal(fake_cuda_all_calls(), calls);
}

static void a_default_stream_is_that_of_the_device_named_and_the_current_one_is_put_back(void **state)
{
    (void)state;
    fake_cuda_activate_context(1);
    assert_true(tml_cuda_device_live(&runtime, 1));
    void *event = tml_cuda_event_create(&runtime, 1);
    assert_int_equal(current_device(), 0);
    fake_cuda_work(1, NULL, 5 * MS);
    assert_int_equal(tml_cuda_record(&runtime, 1, NULL, event), 0); /* 400 if it were recorded on device 0 */
    assert_int_equal(current_device(), 0);
    assert_int_equal(tml_cuda_query(&runtime, event), TML_CUDA_ERROR_NOT_READY);
    fake_cuda_advance(5 * MS);
    assert_int_equal(tml_cuda_query(&runtime, event), 0);
}

static void a_switch_that_fails_leaves_neither_error_nor_record(void **state)
{
    (void)state;
    fake_cuda_activate_context(1);
    assert_true(tml_cuda_device_live(&runtime, 1));
    void *event = tml_cuda_event_create(&runtime, 1);
    assert_non_null(event);
    static const char *const calls[] = {"cudaSetDevice", "cudaGetDevice"};
    for (unsigned i = 0; i < 2; i++) {
        uint64_t records = fake_cuda_calls("cuEventRecord");
        fake_cuda_fail_call(calls[i], 1, 1);
        assert_int_equal(tml_cuda_record(&runtime, 1, NULL, event), TML_CUDA_OTHER_DEVICE);
        assert_int_equal(fake_cuda_calls("cuEventRecord"), records);
        assert_int_equal(cuda.cudaPeekAtLastError(), 0);
        assert_int_equal(current_device(), 0);
    }
    fake_cuda_fail_call("cudaSetDevice", 2, 1); /* the way back */
    assert_int_equal(tml_cuda_record(&runtime, 1, NULL, event), 0);
    assert_int_equal(cuda.cudaPeekAtLastError(), 0);
    cuda.cudaSetDevice(0);
}

static void a_switch_is_not_made_away_from_a_device_without_context(void **state)
{
    (void)state;
    fake_cuda_activate_context(1);
    assert_true(tml_cuda_device_live(&runtime, 1));
    assert_null(tml_cuda_event_create(&runtime, 1));
    assert_int_equal(fake_cuda_calls("cudaSetDevice"), 0);
    assert_false(fake_cuda_context_active(0));
}

static void a_capturing_stream_gets_no_record(void **state)
{
    (void)state;
    void *event = tml_cuda_event_create(&runtime, 0);
    cudaStream_t stream = fake_cuda_calls_stream(false);
    assert_int_equal(fake_cuda_begin_capture(stream, FAKE_CUDA_CAPTURE_GLOBAL), 0);
    assert_int_equal(tml_cuda_record(&runtime, 0, stream, event), TML_CUDA_CAPTURING);
    /* The legacy stream would have to wait for the captured blocking one. */
    assert_int_equal(tml_cuda_record(&runtime, 0, NULL, event), TML_CUDA_CAPTURING);
    assert_int_equal(fake_cuda_calls("cuEventRecord"), 0);
    assert_int_equal(cuda.cudaPeekAtLastError(), 0);
    assert_true(fake_cuda_end_capture(stream));
    assert_true(tml_cuda_usable(&runtime));
}

struct sampler_case {
    void *event;
    bool prepared;
    int answer;
};

static void *query_elsewhere(void *argument)
{
    struct sampler_case *test = argument;
    if (test->prepared)
        tml_cuda_prepare_sampler(&runtime, 0);
    test->answer = tml_cuda_query(&runtime, test->event);
    return NULL;
}

static void a_prepared_thread_s_query_breaks_no_capture_and_another_s_does(void **state)
{
    (void)state;
    cudaStream_t stream = fake_cuda_calls_stream(true);
    for (int prepared = 0; prepared < 2; prepared++) {
        struct sampler_case test = {.event = tml_cuda_event_create(&runtime, 0), .prepared = prepared};
        assert_int_equal(tml_cuda_record(&runtime, 0, NULL, test.event), 0);
        assert_int_equal(fake_cuda_begin_capture(stream, FAKE_CUDA_CAPTURE_GLOBAL), 0);
        fake_cuda_calls_elsewhere(query_elsewhere, &test);
        assert_int_equal(test.answer, prepared ? 0 : TML_CUDA_ERROR_NOT_READY);
        assert_int_equal(fake_cuda_end_capture(stream), prepared);
        assert_true(tml_cuda_usable(&runtime));
    }
}

static void a_sampler_that_cannot_be_prepared_asks_nothing(void **state)
{
    (void)state;
    fake_cuda_fail_call("cudaThreadExchangeStreamCaptureMode", 1, 1);
    tml_cuda_prepare_sampler(&runtime, 0);
    assert_false(tml_cuda_usable(&runtime));
    assert_int_equal(cuda.cudaPeekAtLastError(), 0);
}

static void elapsed_time_is_signed_and_in_ns(void **state)
{
    (void)state;
    void *first = tml_cuda_event_create(&runtime, 0), *second = tml_cuda_event_create(&runtime, 0);
    assert_int_equal(tml_cuda_record(&runtime, 0, NULL, first), 0);
    fake_cuda_work(0, NULL, 1234567);
    assert_int_equal(tml_cuda_record(&runtime, 0, NULL, second), 0);
    assert_true(tml_cuda_elapsed_ns(&runtime, first, second) == TML_NS_NONE); /* still to come */
    fake_cuda_advance(2 * MS);
    assert_int_equal(tml_cuda_elapsed_ns(&runtime, first, second), 1234567);
    assert_int_equal(tml_cuda_elapsed_ns(&runtime, second, first), -1234567);
    assert_int_equal(cuda.cudaPeekAtLastError(), 0);
}

int main(void)
{
#define BARE(name) cmocka_unit_test_setup(name, fresh)
#define LIVE(name) cmocka_unit_test_setup(name, fresh_with_device_0)
    const struct CMUnitTest tests[] = {
        BARE(a_library_that_lacks_symbols_is_no_runtime),
        BARE(looking_makes_no_context),
        BARE(a_device_is_live_once_somebody_else_has_used_it),
        BARE(a_switch_is_not_made_away_from_a_device_without_context),
        LIVE(a_failed_call_of_ours_is_not_the_user_s_last_error),
        LIVE(a_thread_without_a_context_of_its_own_records_through_the_runtime),
        LIVE(a_device_error_ends_all_calls),
        LIVE(a_default_stream_is_that_of_the_device_named_and_the_current_one_is_put_back),
        LIVE(a_switch_that_fails_leaves_neither_error_nor_record),
        LIVE(a_capturing_stream_gets_no_record),
        LIVE(a_prepared_thread_s_query_breaks_no_capture_and_another_s_does),
        LIVE(a_sampler_that_cannot_be_prepared_asks_nothing),
        LIVE(elapsed_time_is_signed_and_in_ns),
    };
    return cmocka_run_group_tests(tests, fake_cuda_calls_load, NULL);
}
