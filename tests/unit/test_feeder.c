/*
 * feeder: which fetches before a step are its input wait. A text is an iteration: a letter a fetch, one letter a loader,
 * a capital the first fetch of a pass; the answer is a '+' for each fetch that is the step's own.
 */
#include <ctype.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "feeder.h"

#define MOST 128

static struct tml_feeders feeders;
static uint64_t iteration;

static int set_up(void **state)
{
    (void)state;
    memset(&feeders, 0, sizeof feeders);
    iteration = 0;
    return 0;
}

static uint16_t loader_of(char letter)
{
    return (uint16_t)(1 + tolower(letter) - 'a');
}

static const char *own(const char *fetches)
{
    static char answer[MOST];
    size_t count = strlen(fetches);
    assert_true(count < MOST);
    tml_feeders_begin(&feeders);
    for (size_t i = 0; i < count; i++)
        tml_feeders_see(&feeders, loader_of(fetches[i]), 0, isupper((unsigned char)fetches[i]));
    tml_feeders_decide(&feeders, ++iteration);
    for (size_t i = 0; i < count; i++)
        answer[i] = tml_feeders_next_is_own(&feeders, loader_of(fetches[i])) ? '+' : '-';
    answer[count] = '\0';
    return answer;
}

static void train(unsigned steps, const char *fetches)
{
    for (unsigned i = 0; i < steps; i++)
        own(fetches);
}

static void a_plain_loop_owns_each_fetch(void **state)
{
    (void)state;
    assert_string_equal(own("A"), "+");
    assert_string_equal(own("a"), "+");
    assert_string_equal(own("a"), "+");
    assert_string_equal(own("A"), "+"); /* the next epoch */
}

static void a_validation_between_two_steps_is_no_step_s(void **state)
{
    (void)state;
    own("A");
    train(2, "a");
    assert_string_equal(own("Vvvvvvvvvva"), "----------+");
    assert_string_equal(own("a"), "+");
    assert_string_equal(own("aVvvvvvvvvv"), "+----------"); /* fetched, then validated, then stepped */
    assert_string_equal(own("VvA"), "--+");                 /* a short one, and an epoch that begins */
    train(20, "a");
    assert_string_equal(own("Vva"), "--+");
}

static void a_validation_before_every_step_is_none_either(void **state)
{
    (void)state;
    own("VvvvA");
    for (unsigned i = 0; i < 10; i++)
        assert_string_equal(own("Vvvva"), "----+");
}

static void what_is_fetched_before_the_first_step_is_start_up(void **state)
{
    (void)state;
    assert_string_equal(own("AaaaA"), "----+"); /* warmed up with another iterator */
    set_up(NULL);
    assert_string_equal(own("Aaaaa"), "----+"); /* with the one that then feeds */
    set_up(NULL);
    assert_string_equal(own("VvA"), "--+"); /* a sanity check of the validation */
    assert_string_equal(own("a"), "+");
    assert_string_equal(own("Vva"), "--+");
}

static void one_batch_ahead_is_whole(void **state)
{
    (void)state;
    for (unsigned epoch = 0; epoch < 3; epoch++) {
        assert_string_equal(own("Aa"), "++");
        for (unsigned i = 0; i < 4; i++)
            assert_string_equal(own("a"), "+");
        assert_string_equal(own(""), "");
    }
    assert_string_equal(own("VvvvvvvAa"), "-------++");
    train(4, "a");
    assert_string_equal(own("Vvvvvvv"), "-------"); /* before a step that fetches nothing */
}

static void loaders_zipped_together_all_feed(void **state)
{
    (void)state;
    assert_string_equal(own("AB"), "++");
    assert_string_equal(own("ab"), "++");
    assert_string_equal(own("Vvvvvab"), "-----++");
    assert_string_equal(own("CD"), "++"); /* two new ones */
}

static void several_fetches_a_step_are_all_its_own(void **state)
{
    (void)state;
    own("Aaaa");
    assert_string_equal(own("aaaa"), "++++");
    assert_string_equal(own("aaaa"), "++++");
    assert_string_equal(own("Baaa"), "-+++");
    assert_string_equal(own("Cccc"), "++++"); /* a new loader, in the same way */
}

static void a_batch_that_is_passed_over_was_waited_for(void **state)
{
    (void)state;
    own("A");
    train(5, "a");
    assert_string_equal(own("aaaaa"), "+++++");
}

static void a_new_loader_every_epoch_feeds_at_once(void **state)
{
    (void)state;
    char fetches[] = "Aa";
    for (char letter = 'A'; letter <= 'Z'; letter++) { /* more than are remembered */
        fetches[0] = letter;
        fetches[1] = '\0';
        assert_string_equal(own(fetches), "+");
        fetches[0] = (char)tolower(letter);
        assert_string_equal(own(fetches), "+");
    }
}

static void loaders_that_take_turns_feed(void **state)
{
    (void)state;
    own("A");
    own("B");
    for (unsigned i = 0; i < 40; i++)
        assert_string_equal(own(i % 2 ? "a" : "b"), "+");
}

static void a_run_over_the_training_data_is_none(void **state)
{
    (void)state;
    own("A");
    train(5, "a");
    assert_string_equal(own("AaaaaaaaA"), "--------+"); /* its accuracy, then the next epoch */
}

/* The iterator that feeds was there before the other one. */
static void passes_over_one_loader_are_told_apart(void **state)
{
    (void)state;
    own("A");
    train(5, "a");
    tml_feeders_begin(&feeders);
    for (unsigned i = 0; i < 10; i++)
        tml_feeders_see(&feeders, 1, 7, i == 0);
    tml_feeders_see(&feeders, 1, 0, false);
    tml_feeders_decide(&feeders, ++iteration);
    for (unsigned i = 0; i < 10; i++)
        assert_false(tml_feeders_next_is_own(&feeders, 1));
    assert_true(tml_feeders_next_is_own(&feeders, 1));
}

static void more_loaders_than_are_told_apart_harm_nothing(void **state)
{
    (void)state;
    own("A");
    train(3, "a");
    assert_string_equal(own("aBCDEFGHIJKLMNOPQRSTUVWXYZ"), "+-------------------------");
    assert_string_equal(own("a"), "+");
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup(name, set_up)
    const struct CMUnitTest tests[] = {
        TEST(a_plain_loop_owns_each_fetch),
        TEST(a_validation_between_two_steps_is_no_step_s),
        TEST(a_validation_before_every_step_is_none_either),
        TEST(what_is_fetched_before_the_first_step_is_start_up),
        TEST(one_batch_ahead_is_whole),
        TEST(loaders_zipped_together_all_feed),
        TEST(several_fetches_a_step_are_all_its_own),
        TEST(a_batch_that_is_passed_over_was_waited_for),
        TEST(a_new_loader_every_epoch_feeds_at_once),
        TEST(loaders_that_take_turns_feed),
        TEST(a_run_over_the_training_data_is_none),
        TEST(passes_over_one_loader_are_told_apart),
        TEST(more_loaders_than_are_told_apart_harm_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
