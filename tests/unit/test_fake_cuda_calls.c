/* What the fake CUDA does around a call: contexts, errors, death. As read off an H200 (driver 580.159, CUDA 13.0). */
#include "fake_cuda_calls.h"

static int device_value, capture_mode;
static float ms_value;
static cudaEvent_t event_value;
static cudaStream_t stream_value;
static struct cudaPointerAttributes attributes;

static int primary_active(int device)
{
    unsigned flags = 9;
    int active = -1;
    int error = cuda.cuDevicePrimaryCtxGetState(device, &flags, &active);

    return error ? -error : active;
}

static bool context_is_current(void)
{
    CUcontext context = NULL;

    assert_int_equal(cuda.cuCtxGetCurrent(&context), 0);
    return context != NULL;
}

/* The call in a fresh process (a reset one), and whether it made a context; as read off an H200. */
#define MAKES(makes, call)                                                                                             \
    do {                                                                                                               \
        fake_cuda_reset();                                                                                             \
        (void)(call);                                                                                                  \
        if (fake_cuda_context_active(0) != (makes))                                                                    \
            fail_msg("%s %s a context", #call, (makes) ? "made no" : "made");                                          \
    } while (0)

static void only_the_calls_that_do_so_in_cuda_make_a_context(void **state)
{
    (void)state;
    MAKES(false, cuda.cudaGetDevice(&device_value));
    MAKES(false, cuda.cudaGetDeviceCount(&device_value));
    MAKES(false, cuda.cudaGetLastError());
    MAKES(false, cuda.cudaPeekAtLastError());
    MAKES(false, cuda.cudaGetErrorName(1));
    MAKES(false, cuda.cudaGetErrorString(1));
    MAKES(false, cuda.cudaRuntimeGetVersion(&device_value));
    MAKES(false, cuda.cudaDriverGetVersion(&device_value));
    MAKES(false, cuda.cudaPointerGetAttributes(&attributes, &device_value));
    MAKES(false, cuda.cudaEventQuery(NULL));
    MAKES(false, cuda.cudaEventElapsedTime(&ms_value, NULL, NULL));
    MAKES(false, cuda.cudaEventSynchronize(NULL));
    MAKES(false, cuda.cudaSetDevice(99));
    MAKES(false, primary_active(0));
    MAKES(true, cuda.cudaSetDevice(0));
    MAKES(true, cuda.cudaEventCreate(&event_value));
    MAKES(true, cuda.cudaEventCreateWithFlags(&event_value, 0));
    MAKES(true, cuda.cudaEventDestroy(NULL));
    MAKES(true, cuda.cudaEventRecord(NULL, NULL));
    MAKES(true, cuda.cudaStreamIsCapturing(NULL, &device_value));
    MAKES(true, cuda.cudaThreadExchangeStreamCaptureMode(&capture_mode));
    MAKES(true, cuda.cudaStreamCreateWithFlags(&stream_value, 1));
    MAKES(true, cuda.cudaStreamQuery(NULL));
    MAKES(true, cuda.cudaDeviceSynchronize());
    MAKES(true, cuda.cudaMemcpy(NULL, NULL, 0, 0));
    MAKES(true, cuda.cudaFree(NULL));
}

static void the_driver_answers_once_something_initialised_it(void **state)
{
    char name[16] = "";
    int value = -1;

    (void)state;
    assert_int_equal(primary_active(0), -3);
    assert_int_equal(cuda.cuDeviceGet(&value, 0), 3);
    assert_int_equal(cuda.cudaRuntimeGetVersion(&value), 0);
    assert_int_equal(primary_active(0), -3);
    assert_int_equal(cuda.cudaGetDevice(&value), 0);
    assert_int_equal(primary_active(0), 0);
    assert_int_equal(primary_active(9), -101);
    assert_int_equal(cuda.cuDeviceGet(&value, 1), 0);
    assert_int_equal(cuda.cuDeviceGetName(name, sizeof(name), value), 0);
    assert_string_equal(name, "Fake GPU 1");
    assert_int_equal(cuda.cuDeviceGetName(name, 5, value), 0);
    assert_string_equal(name, "Fake");
    assert_int_equal(cuda.cuDriverGetVersion(&value), 0);
    assert_int_equal(value, 13000);
    fake_cuda_reset();
    assert_int_equal(cuda.cuInit(0), 0);
    assert_int_equal(primary_active(0), 0);
}

static void *context_elsewhere(void *seen)
{
    bool *current = seen;
    CUcontext context = NULL;

    cuda.cudaEventQuery(event_value); /* neither makes nor binds one */
    current[0] = cuda.cuCtxGetCurrent(&context) == 0 && context;
    cuda.cudaEventRecord(event_value, NULL);
    current[1] = cuda.cuCtxGetCurrent(&context) == 0 && context;
    return NULL;
}

static void a_context_is_current_on_the_threads_that_used_it(void **state)
{
    bool seen[2] = {true, false};

    (void)state;
    assert_true(fake_cuda_activate_context(0));
    assert_int_equal(primary_active(0), 1);
    assert_int_equal(primary_active(1), 0);
    assert_false(context_is_current());
    assert_int_equal(cuda.cudaSetDevice(0), 0);
    assert_true(context_is_current());
    event_value = fake_cuda_calls_event();
    fake_cuda_calls_elsewhere(context_elsewhere, seen);
    assert_false(seen[0]);
    assert_true(seen[1]);
}

static void without_a_device_every_call_says_so(void **state)
{
    (void)state;
    assert_true(fake_cuda_set_device_count(0));
    assert_int_equal(cuda.cudaGetDeviceCount(&device_value), 100);
    assert_int_equal(cuda.cudaGetDevice(&device_value), 100);
    assert_int_equal(cuda.cudaEventCreate(&event_value), 100);
    assert_int_equal(cuda.cudaGetLastError(), 100);
    assert_int_equal(cuda.cudaPeekAtLastError(), 100);
    assert_int_equal(cuda.cudaRuntimeGetVersion(&device_value), 0);
    assert_int_equal(cuda.cuInit(0), 100);
    assert_int_equal(primary_active(0), -3);
}

static void *errors_elsewhere(void *seen)
{
    ((int *)seen)[0] = cuda.cudaPeekAtLastError();
    cuda.cudaGetDevice(&((int *)seen)[1]);
    return NULL;
}

static void last_error_and_current_device_are_the_thread_s(void **state)
{
    int seen[2] = {-1, -1};

    (void)state;
    assert_int_equal(cuda.cudaSetDevice(1), 0);
    assert_int_equal(cuda.cudaSetDevice(2), 101);
    fake_cuda_calls_elsewhere(errors_elsewhere, seen);
    assert_int_equal(seen[0], 0);
    assert_int_equal(seen[1], 0);
    assert_int_equal(cuda.cudaEventQuery(fake_cuda_calls_event()), 0); /* a success does not clear it */
    assert_int_equal(cuda.cudaPeekAtLastError(), 101);
    assert_int_equal(cuda.cudaPeekAtLastError(), 101);
    assert_int_equal(cuda.cudaGetLastError(), 101);
    assert_int_equal(cuda.cudaGetLastError(), 0);
}

static void not_ready_is_never_the_last_error(void **state)
{
    (void)state;
    stream_value = fake_cuda_calls_stream(true);
    event_value = fake_cuda_calls_event();
    assert_int_equal(fake_cuda_work(0, stream_value, 1000), 0);
    assert_int_equal(cuda.cudaEventRecord(event_value, stream_value), 0);
    assert_int_equal(cuda.cudaEventQuery(event_value), 600);
    assert_int_equal(cuda.cudaStreamQuery(stream_value), 600);
    assert_int_equal(cuda.cudaEventElapsedTime(&ms_value, event_value, event_value), 600);
    assert_int_equal(cuda.cudaPeekAtLastError(), 0);
}

static void an_ordered_failure_comes_once_and_in_its_turn(void **state)
{
    (void)state;
    event_value = fake_cuda_calls_event();
    assert_true(fake_cuda_fail_call("cudaEventQuery", 3, 999));
    assert_false(fake_cuda_fail_call("cudaEventQuerry", 1, 999));
    assert_int_equal(cuda.cudaEventQuery(event_value), 0);
    assert_int_equal(cuda.cudaEventQuery(event_value), 0);
    assert_int_equal(cuda.cudaEventQuery(event_value), 999);
    assert_int_equal(cuda.cudaEventQuery(event_value), 0);
    assert_int_equal(cuda.cudaGetLastError(), 999);
    assert_true(fake_cuda_fail_call("cudaEventCreate", 0, 2));
    assert_int_equal(cuda.cudaEventCreate(&event_value), 2);
    assert_int_equal(cuda.cudaEventCreate(&event_value), 2);
    assert_true(fake_cuda_fail_call("cudaEventCreate", 0, 0));
    assert_int_equal(cuda.cudaEventCreate(&event_value), 0);
}

static void a_dead_device_fails_what_reaches_it_also_after_its_error_was_taken(void **state)
{
    (void)state;
    event_value = fake_cuda_calls_event();
    assert_int_equal(cuda.cudaEventRecord(event_value, NULL), 0);
    assert_true(fake_cuda_kill_device(0, 719));
    assert_int_equal(cuda.cudaEventQuery(event_value), 719);
    assert_int_equal(cuda.cudaGetLastError(), 719);
    assert_int_equal(cuda.cudaGetLastError(), 0);
    assert_int_equal(cuda.cudaEventQuery(event_value), 719);
    assert_int_equal(cuda.cudaEventElapsedTime(&ms_value, event_value, event_value), 719);
    assert_int_equal(cuda.cudaEventRecord(event_value, NULL), 719);
    assert_int_equal(cuda.cudaEventDestroy(event_value), 719);
    assert_int_equal(cuda.cudaStreamIsCapturing(NULL, &device_value), 719);
    assert_int_equal(cuda.cudaGetDevice(&device_value), 0); /* the real one's still answer, too */
    assert_int_equal(cuda.cudaThreadExchangeStreamCaptureMode(&capture_mode), 0);
    assert_int_equal(primary_active(0), 1);
    assert_int_equal(cuda.cudaSetDevice(1), 0);
    assert_int_equal(cuda.cudaEventQuery(event_value), 719);
    event_value = fake_cuda_calls_event();
    assert_int_equal(cuda.cudaEventRecord(event_value, NULL), 0);
}

static void a_stale_handle_is_an_error_and_counted(void **state)
{
    (void)state;
    event_value = fake_cuda_calls_event();
    cudaEvent_t old = event_value;
    assert_int_equal(cuda.cudaEventDestroy(event_value), 0);
    event_value = fake_cuda_calls_event(); /* takes the same slot */
    assert_int_equal(cuda.cudaEventQuery(old), 400);
    assert_int_equal(cuda.cudaEventDestroy(old), 400);
    assert_int_equal(cuda.cudaStreamQuery((cudaStream_t)0x7fff12345670), 400);
    assert_int_equal(fake_cuda_misuses(), 3);
    fake_cuda_reset();
    assert_int_equal(cuda.cudaEventQuery(event_value), 400);
}

static void memory_knows_what_it_is(void **state)
{
    void *device = NULL, *host = NULL;
    char own[16] = "";

    (void)state;
    assert_int_equal(cuda.cudaMalloc(&device, 64), 0);
    assert_int_equal(cuda.cudaHostAlloc(&host, 64, 0), 0);
    assert_int_equal(cuda.cudaPointerGetAttributes(&attributes, (char *)device + 8), 0);
    assert_int_equal(attributes.type, 2);
    assert_int_equal(cuda.cudaPointerGetAttributes(&attributes, host), 0);
    assert_int_equal(attributes.type, 1);
    assert_int_equal(cuda.cudaPointerGetAttributes(&attributes, own), 0);
    assert_int_equal(attributes.type, 0);
    assert_int_equal(cuda.cudaMemset(device, 'x', 8), 0);
    assert_int_equal(cuda.cudaMemcpy(own, device, 8, 2), 0);
    assert_string_equal(own, "xxxxxxxx");
    assert_int_equal(cuda.cudaMemcpy(own, device, 8, 5), 21);
    assert_int_equal(cuda.cudaFree(host), 1);
    assert_int_equal(cuda.cudaFree(device), 0);
    assert_int_equal(cuda.cudaFreeHost(host), 0);
    assert_int_equal(cuda.cudaHostRegister(own, sizeof(own), 0), 0);
    assert_int_equal(cuda.cudaHostRegister(own, sizeof(own), 0), 712);
    assert_int_equal(cuda.cudaHostUnregister(own), 0);
    assert_int_equal(cuda.cudaHostUnregister(own), 713);
}

static void errors_have_names(void **state)
{
    (void)state;
    assert_string_equal(cuda.cudaGetErrorName(600), "cudaErrorNotReady");
    assert_string_equal(cuda.cudaGetErrorString(719), "unspecified launch failure");
    assert_string_equal(cuda.cudaGetErrorName(123456), "unrecognized error code");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(only_the_calls_that_do_so_in_cuda_make_a_context, fake_cuda_calls_reset),
        cmocka_unit_test_setup(the_driver_answers_once_something_initialised_it, fake_cuda_calls_reset),
        cmocka_unit_test_setup(a_context_is_current_on_the_threads_that_used_it, fake_cuda_calls_reset),
        cmocka_unit_test_setup(without_a_device_every_call_says_so, fake_cuda_calls_reset),
        cmocka_unit_test_setup(last_error_and_current_device_are_the_thread_s, fake_cuda_calls_reset),
        cmocka_unit_test_setup(not_ready_is_never_the_last_error, fake_cuda_calls_reset),
        cmocka_unit_test_setup(an_ordered_failure_comes_once_and_in_its_turn, fake_cuda_calls_reset),
        cmocka_unit_test_setup(a_dead_device_fails_what_reaches_it_also_after_its_error_was_taken,
                               fake_cuda_calls_reset),
        cmocka_unit_test_setup(a_stale_handle_is_an_error_and_counted, fake_cuda_calls_reset),
        cmocka_unit_test_setup(memory_knows_what_it_is, fake_cuda_calls_reset),
        cmocka_unit_test_setup(errors_have_names, fake_cuda_calls_reset),
    };

    return cmocka_run_group_tests_name("fake_cuda_calls", tests, fake_cuda_calls_load, NULL);
}
