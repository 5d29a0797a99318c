/* What the fake CUDA remembers of the calls, and its use by threads and by a forked child. */
#include "fake_cuda_calls.h"

#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static void calls_and_objects_are_counted(void **state)
{
    struct fake_cuda_entry entries[4];
    void *memory = NULL;

    (void)state;
    assert_int_equal(fake_cuda_calls("cudaEventCreat"), UINT64_MAX);
    assert_int_equal(cuda.cudaSetDevice(1), 0);
    cudaEvent_t first = fake_cuda_calls_event(), second = fake_cuda_calls_event();
    assert_int_equal(cuda.cudaEventDestroy(first), 0);
    fake_cuda_calls_stream(false);
    assert_int_equal(fake_cuda_calls("cudaEventCreateWithFlags"), 2);
    assert_int_equal(fake_cuda_all_calls(), 5);
    assert_int_equal(fake_cuda_live_events(), 1);
    assert_int_equal(fake_cuda_peak_events(), 2);
    assert_int_equal(fake_cuda_live_streams(), 1);
    assert_int_equal(fake_cuda_peak_streams(), 1);
    assert_int_equal(fake_cuda_forbidden_calls(), 0);
    assert_int_equal(cuda.cudaEventSynchronize(second), 0);
    assert_int_equal(cuda.cudaMallocHost(&memory, 8), 0);
    assert_int_equal(cuda.cudaFreeHost(memory), 0);
    assert_int_equal(fake_cuda_forbidden_calls(), 3);
    assert_int_equal(fake_cuda_log(entries, 4), 4);
    assert_string_equal(entries[1].function, "cudaEventSynchronize");
    assert_ptr_equal(entries[1].handle, second);
    assert_int_equal(entries[1].device, 1);
    assert_int_equal(entries[1].thread, syscall(SYS_gettid));
    assert_int_equal(entries[1].at_ns, fake_cuda_now_ns());
    assert_string_equal(entries[3].function, "cudaFreeHost");
    fake_cuda_reset();
    assert_int_equal(fake_cuda_all_calls(), 0);
    assert_int_equal(fake_cuda_log(entries, 4), 0);
    assert_int_equal(fake_cuda_live_events() + fake_cuda_live_streams(), 0);
}

/* One thread's part of the hammering, and how many answers were not as they must be. */
static void *hammer(void *wrong)
{
    cudaStream_t stream = NULL;
    cudaEvent_t begin = NULL, end = NULL;
    float ms = -1;

    *(int *)wrong += cuda.cudaStreamCreateWithFlags(&stream, 1) != 0;
    for (int i = 0; i < 500; i++) {
        *(int *)wrong += cuda.cudaEventCreateWithFlags(&begin, 0) != 0 || cuda.cudaEventCreate(&end) != 0;
        *(int *)wrong += cuda.cudaEventRecord(begin, stream) != 0 || fake_cuda_work(0, stream, 1000) != 0;
        *(int *)wrong += cuda.cudaEventRecord(end, stream) != 0;
        while (cuda.cudaEventQuery(end) == 600)
            ;
        *(int *)wrong += cuda.cudaEventElapsedTime(&ms, begin, end) != 0 || ms < 0.001F;
        *(int *)wrong += cuda.cudaEventDestroy(begin) != 0 || cuda.cudaEventDestroy(end) != 0;
    }
    *(int *)wrong += cuda.cudaStreamDestroy(stream) != 0 || cuda.cudaPeekAtLastError() != 0;
    return NULL;
}

static void many_threads_may_use_it_in_real_time(void **state)
{
    pthread_t threads[4];
    int wrong[4] = {0};

    (void)state;
    fake_cuda_follow_host_clock(1);
    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, hammer, &wrong[i]), 0);
    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    assert_int_equal(wrong[0] + wrong[1] + wrong[2] + wrong[3], 0);
    assert_int_equal(fake_cuda_calls("cudaEventRecord"), 4000);
    assert_int_equal(fake_cuda_live_events() + fake_cuda_live_streams() + fake_cuda_misuses(), 0);
}

static void a_forked_child_cannot_use_what_its_parent_initialised(void **state)
{
    int status = -1, value, active;
    unsigned flags;

    (void)state;
    cudaEvent_t event = fake_cuda_calls_event();
    pid_t child = fork();
    if (child == 0) {
        bool refused = cuda.cudaGetDevice(&value) == 3 && cuda.cudaEventCreate(&event) == 3;
        refused = refused && cuda.cuDevicePrimaryCtxGetState(0, &flags, &active) == 3;
        _exit(refused && fake_cuda_calls("cudaGetDevice") == 1 ? 0 : 1);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_int_equal(cuda.cudaGetDevice(&value), 0);
}

/* What the child of the next test does: this binary again, so that the log is written by an ordinary exit. */
static int use_and_exit(void)
{
    int device;

    if (fake_cuda_calls_load(NULL) != 0)
        return 2;
    cuda.cudaGetDevice(&device);
    cuda.cudaGetDevice(&device);
    return cuda.cudaFree(NULL);
}

static void the_counters_are_written_at_exit(void **state)
{
    char path[] = "/tmp/fake_cuda_log_XXXXXX", text[4096] = "";
    int file = mkstemp(path), status = -1;

    (void)state;
    assert_true(file >= 0);
    pid_t child = fork();
    if (child == 0) {
        setenv("FAKE_CUDA_LOG", path, 1);
        execl("/proc/self/exe", "test_fake_cuda_log", "use-and-exit", (char *)NULL);
        _exit(3);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_true(read(file, text, sizeof(text) - 1) > 0);
    close(file);
    unlink(path);
    assert_non_null(strstr(text, "cudaGetDevice 2\n"));
    assert_non_null(strstr(text, "cudaEventQuery 0\n"));
    assert_non_null(strstr(text, "forbidden_calls 1\n"));
    assert_non_null(strstr(text, "live_events 0\n"));
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(calls_and_objects_are_counted, fake_cuda_calls_reset),
        cmocka_unit_test_setup(many_threads_may_use_it_in_real_time, fake_cuda_calls_reset),
        cmocka_unit_test_setup(a_forked_child_cannot_use_what_its_parent_initialised, fake_cuda_calls_reset),
        cmocka_unit_test_setup(the_counters_are_written_at_exit, fake_cuda_calls_reset),
    };

    if (argc == 2 && strcmp(argv[1], "use-and-exit") == 0)
        return use_and_exit();
    return cmocka_run_group_tests_name("fake_cuda_log", tests, fake_cuda_calls_load, NULL);
}
