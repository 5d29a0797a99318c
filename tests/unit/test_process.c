/* process: who lives, who has ended, and that an id used again is told apart. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "process.h"

static void a_living_process_has_a_start_that_stays(void **state)
{
    (void)state;
    uint64_t mine = tml_process_start_ticks((uint64_t)getpid());
    assert_true(mine > 0);
    assert_int_equal(tml_process_start_ticks((uint64_t)getpid()), mine);
    prctl(PR_SET_NAME, ") R 1 (2"); /* a name may look like the fields behind it */
    assert_int_equal(tml_process_start_ticks((uint64_t)getpid()), mine);
}

static void one_that_ended_has_none_even_before_it_is_waited_for(void **state)
{
    (void)state;
    pid_t child = fork();
    if (child == 0)
        _exit(0);
    siginfo_t info;
    assert_int_equal(waitid(P_PID, (id_t)child, &info, WEXITED | WNOWAIT), 0);
    assert_int_equal(tml_process_start_ticks((uint64_t)child), 0);
    assert_int_equal(waitpid(child, NULL, 0), child);
    assert_int_equal(tml_process_start_ticks((uint64_t)child), 0);
    assert_int_equal(tml_process_start_ticks(0), 0);
    assert_int_equal(tml_process_start_ticks(UINT64_MAX), 0);
}

static void the_host_has_a_name_with_an_end(void **state)
{
    (void)state;
    char host[TML_PROCESS_HOST_BYTES + 1] = {0};
    tml_process_host(host);
    assert_true(host[0] != '\0');
    assert_int_equal(host[TML_PROCESS_HOST_BYTES - 1], 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_living_process_has_a_start_that_stays),
        cmocka_unit_test(one_that_ended_has_none_even_before_it_is_waited_for),
        cmocka_unit_test(the_host_has_a_name_with_an_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
