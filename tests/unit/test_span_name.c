/* span_name: a name has one number, as many as fit are told apart, and what stands in it is fit for files and terminals. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "span_name.h"
#include "traceml/traceml.h"

static struct tml_span_names names;

static int set_up(void **state)
{
    (void)state;
    memset(&names, 0, sizeof names);
    return 0;
}

static const char *kept(const char *name)
{
    return tml_span_name_text(&names, tml_span_name_add(&names, name));
}

static void a_name_has_one_number_wherever_its_text_stands(void **state)
{
    (void)state;
    char copy[] = "augment";
    unsigned number = tml_span_name_add(&names, "augment");
    assert_int_not_equal(number, TML_SPAN_NAME_OTHER);
    assert_int_equal(tml_span_name_add(&names, copy), number);
    assert_int_not_equal(tml_span_name_add(&names, "log"), number);
    assert_string_equal(tml_span_name_text(&names, number), "augment");
}

static void what_comes_when_all_are_taken_is_other(void **state)
{
    (void)state;
    char name[16];
    for (unsigned i = 1; i < TML_SPAN_NAMES; i++) {
        snprintf(name, sizeof name, "phase%u", i);
        assert_int_equal(tml_span_name_add(&names, name), i);
    }
    assert_int_equal(tml_span_name_add(&names, "one too many"), TML_SPAN_NAME_OTHER);
    assert_int_equal(tml_span_name_add(&names, "phase3"), 3);
    assert_string_equal(tml_span_name_text(&names, TML_SPAN_NAME_OTHER), "other");
}

static void other_and_nothing_are_no_names_of_their_own(void **state)
{
    (void)state;
    assert_int_equal(tml_span_name_add(&names, "other"), TML_SPAN_NAME_OTHER);
    assert_int_equal(tml_span_name_add(&names, ""), TML_SPAN_NAME_OTHER);
    assert_null(tml_span_name_text(&names, 1));
    assert_null(tml_span_name_text(&names, TML_SPAN_NAMES));
}

static void what_no_terminal_should_get_is_replaced(void **state)
{
    (void)state;
    assert_string_equal(kept("a\033[31mb\n"), "a?[31mb?");
    assert_string_equal(kept("\xff\xc3"
                             "x"),
                        "??x");
    assert_string_equal(kept("gr\xc3\xb6\xc3\x9f"
                             "e"),
                        "gr\xc3\xb6\xc3\x9f"
                        "e");
}

static void a_long_name_is_cut_between_characters(void **state)
{
    (void)state;
    char name[2 * TML_SPAN_NAME_BYTES];
    for (size_t at = 0; at + 2 < sizeof name; at += 2)
        memcpy(name + at, "\xc3\xb6", 3);
    assert_int_equal(strlen(kept(name)), TML_SPAN_NAME_BYTES - 2); /* 47 would cut a character in two */
    memset(name, 'x', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    assert_int_equal(strlen(kept(name)), TML_SPAN_NAME_BYTES - 1);
}

/* The two phases have numbers too, which no table holds. */
static void evaluation_and_checkpoint_are_phases(void **state)
{
    (void)state;
    traceml_name evaluation = traceml_name_of("evaluation"), checkpoint = traceml_name_of("checkpoint");
    assert_true(evaluation >= (traceml_name)TML_SPAN_NAMES && checkpoint >= (traceml_name)TML_SPAN_NAMES);
    assert_int_not_equal(evaluation, checkpoint);
    assert_in_range(traceml_name_of("augment"), 1, TML_SPAN_NAMES - 1);
    assert_in_range(traceml_name_of("forward"), 1, TML_SPAN_NAMES - 1); /* a name like any other */
    assert_true(traceml_name_of(NULL) < 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(a_name_has_one_number_wherever_its_text_stands, set_up),
        cmocka_unit_test_setup(what_comes_when_all_are_taken_is_other, set_up),
        cmocka_unit_test_setup(other_and_nothing_are_no_names_of_their_own, set_up),
        cmocka_unit_test_setup(what_no_terminal_should_get_is_replaced, set_up),
        cmocka_unit_test_setup(a_long_name_is_cut_between_characters, set_up),
        cmocka_unit_test(evaluation_and_checkpoint_are_phases),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
