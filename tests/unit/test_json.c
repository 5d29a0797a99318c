/* json: the reader takes JSON and nothing else, the writer writes it, and no locale changes a number. */
#include <float.h>
#include <locale.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "clock.h"
#include "json.h"

static struct tml_json *parse(const char *text)
{
    /* A heap copy of exactly these bytes: a read behind the end is an error under ASan. */
    size_t bytes = strlen(text);
    char *copy = malloc(bytes + (bytes == 0));
    assert_non_null(copy);
    memcpy(copy, text, bytes);
    struct tml_json *root = tml_json_parse(copy, bytes);
    free(copy);
    return root;
}

static void assert_refused(const char *text)
{
    struct tml_json *root = parse(text);
    if (root)
        print_error("taken: %s\n", text);
    assert_null(root);
}

static void assert_reprinted(const char *text, const char *expected)
{
    struct tml_json *root = parse(text);
    if (!root)
        print_error("refused: %s\n", text);
    assert_non_null(root);
    char *printed = tml_json_print(root);
    assert_non_null(printed);
    assert_string_equal(printed, expected);
    free(printed);
    tml_json_free(root);
}

static double number_of(const char *text)
{
    struct tml_json *root = parse(text);
    double number = NAN;
    assert_true(tml_json_number(root, &number));
    tml_json_free(root);
    return number;
}

/* ---- Reader ---- */

static void reader_takes_every_kind_of_value(void **state)
{
    (void)state;
    const char *text =
        " {\"s\":\"x\\u00e9\\n\",\"n\":-1.5e3,\"t\":true,\"f\":false,\"z\":null,\"a\":[1,[]],\"o\":{}}\r\n\t";
    struct tml_json *root = parse(text);
    assert_non_null(root);
    double number;
    bool flag;
    assert_string_equal(tml_json_string(tml_json_get(root, "s")), "x\xC3\xA9\n");
    assert_true(tml_json_number(tml_json_get(root, "n"), &number) && number == -1500);
    assert_true(tml_json_bool(tml_json_get(root, "t"), &flag) && flag);
    assert_true(tml_json_bool(tml_json_get(root, "f"), &flag) && !flag);
    assert_true(tml_json_is_null(tml_json_get(root, "z")));
    assert_true(tml_json_is_array(tml_json_get(root, "a")));
    assert_true(tml_json_is_object(tml_json_get(root, "o")));
    const struct tml_json *first = tml_json_first(tml_json_get(root, "a"));
    assert_null(tml_json_key(first));
    assert_true(tml_json_is_array(tml_json_next(first)));
    assert_null(tml_json_next(tml_json_next(first)));
    assert_string_equal(tml_json_key(tml_json_first(root)), "s");
    tml_json_free(root);
}

static void reader_answers_no_for_what_is_absent_or_of_another_type(void **state)
{
    (void)state;
    struct tml_json *root = parse("{\"A\":1,\"list\":[{\"a\":1}]}");
    double number = 7;
    bool flag;
    int64_t ns;
    assert_null(tml_json_get(root, "a"));
    assert_null(tml_json_get(tml_json_get(root, "list"), "a"));
    assert_null(tml_json_get(NULL, "a"));
    assert_null(tml_json_first(NULL));
    assert_null(tml_json_next(NULL));
    assert_null(tml_json_key(NULL));
    assert_null(tml_json_string(tml_json_get(root, "A")));
    assert_null(tml_json_string(NULL));
    assert_false(tml_json_is_null(NULL));
    assert_false(tml_json_is_object(NULL));
    assert_false(tml_json_number(root, &number));
    assert_true(number == 7);
    assert_false(tml_json_bool(tml_json_get(root, "A"), &flag));
    assert_false(tml_json_ms_as_ns(NULL, &ns));
    tml_json_free(root);
    tml_json_free(NULL);
}

static void reader_refuses_what_is_not_one_json_value(void **state)
{
    (void)state;
    static const char *const refused[] = {
        "",
        " ",
        "{",
        "}",
        "[1,]",
        "{\"a\":1,}",
        "{\"a\"}",
        "{a:1}",
        "[1 2]",
        "{} {}",
        "{}x",
        "[1]]",
        "[}",
        "nul",
        "nullx",
        "True",
        "'a'",
        "\"a",
        "\"\\\"",
        "\"\\x\"",
        "\"\\u12\"",
        "\"\\ud800\"",
        "\"a\nb\"",
        "\"\\u0000\"",
        "\x01",
        "{\"a\":1",
        "{\"a\":1,",
        "[1]\x0b",
        "\xEF\xBB\xBF{}",
        "/* c */ 1",
        "[1]//",
    };
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++)
        assert_refused(refused[i]);
    assert_null(tml_json_parse(NULL, 3));
    assert_null(tml_json_parse("{}\0", 3));
    assert_null(tml_json_parse("\"a\0b\"", 5));
}

static void reader_refuses_numbers_that_are_no_json_or_not_finite(void **state)
{
    (void)state;
    static const char *const refused[] = {
        "01",        "-",
        "+1",        ".5",
        "1.",        "1.e3",
        "1e",        "1e+",
        "0x10",      "1-2",
        "--1",       "-01",
        "1.5.2",     "NaN",
        "nan",       "Infinity",
        "-Infinity", "inf",
        "1e999",     "[0,{\"a\":-1e400}]",
        "1,5",       "0.1234567890123456789012345678901234567890123456789012345678901234",
    };
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++)
        assert_refused(refused[i]);
    assert_true(number_of("-0.5E-2") == -0.005);
    assert_true(number_of("1e308") == 1e308);
    assert_true(number_of("1e-999") == 0);
}

static void reader_refuses_text_that_is_not_utf8(void **state)
{
    (void)state;
    static const char *const refused[] = {
        "\"\x80\"",
        "\"\xC3\"",
        "\"\xC0\xAF\"",
        "\"\xE0\x80\xAF\"",
        "\"\xED\xA0\x80\"",
        "\"\xF0\x80\x80\x80\"",
        "\"\xF4\x90\x80\x80\"",
        "\"\xF8\x88\x80\x80\x80\"",
        "\"\xFF\"",
        "{\"\xE9\":1}",
        "\"\xE2\x82",
    };
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++)
        assert_refused(refused[i]);
    assert_reprinted("\"\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80\"", "\"\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80\"");
    assert_reprinted("\"\\ud83d\\ude00\"", "\"\xF0\x9F\x98\x80\"");
}

static char *nested(unsigned levels)
{
    char *text = malloc(2 * (size_t)levels + 1);
    assert_non_null(text);
    memset(text, '[', levels);
    memset(text + levels, ']', levels);
    text[2 * (size_t)levels] = '\0';
    return text;
}

static void reader_takes_64_levels_and_refuses_more(void **state)
{
    (void)state;
    const unsigned levels[] = {64, 65, 1000, 5000000};
    for (size_t i = 0; i < sizeof levels / sizeof *levels; i++) {
        char *text = nested(levels[i]);
        struct tml_json *root = tml_json_parse(text, strlen(text));
        assert_true((root != NULL) == (levels[i] <= 64));
        tml_json_free(root);
        free(text);
    }
    assert_reprinted("[\"[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[\\\"[\"]",
                     "[\"[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[\\\"[\"]");
}

/* Few keys are compared with each other, many are sorted. */
static void reader_refuses_a_key_twice_in_one_object(void **state)
{
    (void)state;
    for (unsigned keys = 2; keys < 40; keys++)
        for (unsigned twin = 0; twin <= keys; twin++) { /* the last key repeats this one; the one beyond: none */
            char text[1024] = "{\"in\":{";
            for (unsigned i = 0; i < keys; i++)
                snprintf(text + strlen(text), sizeof text - strlen(text), "%s\"k%u\":0", i ? "," : "", i * 7 % keys);
            if (twin < keys)
                snprintf(text + strlen(text), sizeof text - strlen(text), ",\"\\u006b%u\":1", twin);
            strcat(text, "}}");
            struct tml_json *root = tml_json_parse(text, strlen(text));
            bool twins = keys % 7 == 0 || twin < keys; /* a multiple of 7 makes twins of all of them */
            assert_true((root == NULL) == twins);
            tml_json_free(root);
        }
    assert_reprinted("[{\"a\":1},{\"a\":{\"a\":2}}]", "[{\"a\":1},{\"a\":{\"a\":2}}]");
}

static void a_refused_text_is_explained_with_its_line(void **state)
{
    (void)state;
    static const struct {
        const char *text, *what;
        size_t line;
    } cases[] = {
        {"", "empty", 0},
        {"{\n\"a\": 1,\n}", "not JSON", 3},
        {"{\n\"a\": 1\n}\nx", "not JSON", 4},
        {"[1,\n2,\n", "not JSON", 3},
        {"[1,\n\"\xff\"]", "bytes that are not UTF-8", 2},
        {"[\n\n1e999]", "a number that is not finite", 0},
        {"{\n\"a\":1,\"a\":1}", "a key twice in one object", 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct tml_json_fault fault;
        assert_null(tml_json_parse_or_say(cases[i].text, strlen(cases[i].text), &fault));
        assert_string_equal(fault.what, cases[i].what);
        assert_int_equal(fault.line, cases[i].line);
    }
}

/* Whatever is left of a line that a kill cut: refused or taken, never a crash (ASan) and never a half value. */
static void reader_refuses_every_beginning_of_an_object(void **state)
{
    (void)state;
    const char *text = "{\"step\":17,\"cpu\":{\"iteration_ms\":12.5,\"x\":[true,null,\"\\u00e9\xC3\xA9\"]},\"e\":1e3}";
    for (size_t bytes = 0; bytes < strlen(text); bytes++) {
        char *copy = malloc(bytes + 1);
        assert_non_null(copy);
        memcpy(copy, text, bytes);
        struct tml_json *root = tml_json_parse(copy, bytes);
        assert_null(root);
        free(copy);
    }
}

static void reader_survives_mutated_text(void **state)
{
    (void)state;
    const char *text =
        "{\"step\":17,\"cpu\":{\"iteration_ms\":-12.5e-3,\"x\":[true,null,\"\\u00e9\xC3\xA9\"]},\"e\":0}";
    size_t bytes = strlen(text);
    srand(7);
    for (int round = 0; round < 20000; round++) {
        char *copy = malloc(bytes);
        assert_non_null(copy);
        memcpy(copy, text, bytes);
        for (int change = rand() % 4; change >= 0; change--)
            copy[(size_t)rand() % bytes] = rand() % 2 ? text[(size_t)rand() % bytes] : (char)(rand() % 256);
        struct tml_json *root = tml_json_parse(copy, bytes);
        char *printed = root ? tml_json_print(root) : NULL;
        if (printed) { /* what was taken is printed as something that is taken again */
            struct tml_json *again = tml_json_parse(printed, strlen(printed));
            assert_non_null(again);
            tml_json_free(again);
        }
        free(printed);
        tml_json_free(root);
        free(copy);
    }
}

static void whole_numbers_are_0_to_2_to_the_53(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        bool good;
        uint64_t value;
    } cases[] = {
        {"0", true, 0},      {"-0", true, 0},
        {"1e3", true, 1000}, {"9007199254740992", true, UINT64_C(9007199254740992)},
        {"1.0", true, 1},    {"9007199254740994", false, 0},
        {"-1", false, 0},    {"1.5", false, 0},
        {"\"1\"", false, 0}, {"true", false, 0},
        {"1e300", false, 0}, {"null", false, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct tml_json *root = parse(cases[i].text);
        uint64_t value = 0;
        assert_int_equal(tml_json_uint(root, &value), cases[i].good);
        assert_int_equal(value, cases[i].value);
        tml_json_free(root);
    }
}

static void milliseconds_become_the_exact_nanoseconds(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        bool good;
        int64_t ns;
    } cases[] = {
        {"0", true, 0},
        {"0.000001", true, 1},
        {"-0.000001", true, -1},
        {"1234.567891", true, 1234567891},
        {"2147483647.999999", true, INT64_C(2147483647999999)},
        {"-2147483647.999999", true, INT64_C(-2147483647999999)},
        {"9223372036854", true, INT64_C(9223372036854000000)},
        {"9223372036855", false, 0},
        {"-9223372036855", false, 0},
        {"null", false, 0},
        {"\"1\"", false, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct tml_json *root = parse(cases[i].text);
        int64_t ns = 0;
        assert_int_equal(tml_json_ms_as_ns(root, &ns), cases[i].good);
        if (llabs(cases[i].ns) < (INT64_C(1) << 31) * TML_NS_PER_MS)
            assert_int_equal(ns, cases[i].ns);
        else /* a double of so many ms does not hold every ns */
            assert_true(llabs(ns - cases[i].ns) <= cases[i].ns >> 52);
        tml_json_free(root);
    }
}

static void printing_keeps_values_and_order(void **state)
{
    (void)state;
    assert_reprinted(" { \"b\" : [ 1 , -2.50 , true , null ] , \"a\" : { } , \"c\":[] , \"\\u0001\\\"\":\"/\\/\" } ",
                     "{\"b\":[1,-2.5,true,null],\"a\":{},\"c\":[],\"\\u0001\\\"\":\"//\"}");
    assert_reprinted("[0.1,1e300,5e-324,0.30000000000000004,123456789012345678]",
                     "[0.1,1e+300,4.94065645841247e-324,0.30000000000000004,1.2345678901234568e+17]");
    char *printed = tml_json_print(NULL);
    assert_string_equal(printed, "null");
    free(printed);
}

/* ---- Writer ---- */

static void assert_written(const struct tml_json_writer *writer, const char *expected)
{
    assert_false(writer->failed);
    assert_string_equal(writer->text, expected);
    assert_int_equal(writer->length, strlen(expected));
}

static void writer_puts_commas_and_keys_where_they_belong(void **state)
{
    (void)state;
    char text[256];
    struct tml_json_writer writer;
    tml_json_writer_fixed(&writer, text, sizeof text);
    tml_json_begin_object(&writer, NULL);
    tml_json_write_uint(&writer, "u", UINT64_MAX);
    tml_json_write_int(&writer, "i", INT64_MIN);
    tml_json_begin_array(&writer, "a");
    tml_json_begin_object(&writer, NULL);
    tml_json_end_object(&writer);
    tml_json_write_bool(&writer, NULL, true);
    tml_json_write_null(&writer, NULL);
    tml_json_begin_array(&writer, NULL);
    tml_json_end_array(&writer);
    tml_json_end_array(&writer);
    tml_json_write_raw(&writer, "r", "{\"x\":1}");
    tml_json_write_raw(&writer, "empty", "");
    tml_json_write_string(&writer, "none", NULL);
    tml_json_end_object(&writer);
    assert_written(&writer, "{\"u\":18446744073709551615,\"i\":-9223372036854775808,\"a\":[{},true,null,[]],"
                            "\"r\":{\"x\":1},\"empty\":null,\"none\":null}");
}

static void writer_indents_when_asked(void **state)
{
    (void)state;
    struct tml_json_writer writer;
    tml_json_writer_heap(&writer, 2);
    tml_json_begin_object(&writer, NULL);
    tml_json_begin_array(&writer, "a");
    tml_json_write_uint(&writer, NULL, 1);
    tml_json_write_uint(&writer, NULL, 2);
    tml_json_end_array(&writer);
    tml_json_begin_object(&writer, "o");
    tml_json_end_object(&writer);
    tml_json_end_object(&writer);
    char *text = tml_json_writer_take(&writer);
    assert_string_equal(text, "{\n  \"a\": [\n    1,\n    2\n  ],\n  \"o\": {}\n}");
    free(text);
}

static void writer_escapes_strings_and_replaces_what_is_not_utf8(void **state)
{
    (void)state;
    char text[256];
    struct tml_json_writer writer;
    tml_json_writer_fixed(&writer, text, sizeof text);
    tml_json_write_string(&writer, NULL, "\"\\/\b\f\n\r\t\x01\x1f\x7f \xC3\xA9 \xFF\xC3 \xE2\x82");
    assert_written(&writer, "\"\\\"\\\\/\\b\\f\\n\\r\\t\\u0001\\u001f\x7f \xC3\xA9 \xEF\xBF\xBD\xEF\xBF\xBD "
                            "\xEF\xBF\xBD\xEF\xBF\xBD\"");
    struct tml_json *root = tml_json_parse(text, writer.length);
    assert_non_null(root);
    tml_json_free(root);
}

static void nanoseconds_are_written_as_exact_milliseconds(void **state)
{
    (void)state;
    static const struct {
        int64_t ns;
        const char *text;
    } cases[] = {
        {0, "0"},
        {1, "0.000001"},
        {-1, "-0.000001"},
        {10, "0.00001"},
        {999999, "0.999999"},
        {1000000, "1"},
        {1500000, "1.5"},
        {-1234567891, "-1234.567891"},
        {INT64_MAX, "9223372036854.775807"},
        {-INT64_MAX, "-9223372036854.775807"},
        {TML_NS_NONE, "null"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[64];
        struct tml_json_writer writer;
        tml_json_writer_fixed(&writer, text, sizeof text);
        tml_json_write_ns_as_ms(&writer, NULL, cases[i].ns);
        assert_written(&writer, cases[i].text);
    }
}

static void numbers_have_at_most_the_decimals_asked_for(void **state)
{
    (void)state;
    static const struct {
        double value;
        unsigned decimals;
        const char *text;
    } cases[] = {
        {0, 3, "0"},
        {-0.0, 3, "0"},
        {-0.0001, 3, "0"},
        {0.0005, 3, "0.001"},
        {1.5, 0, "2"},
        {2.25, 6, "2.25"},
        {-2.25, 1, "-2.3"},
        {0.999999, 3, "1"},
        {199.9996, 3, "200"},
        {1e9 + 0.123456, 6, "1000000000.123456"},
        {123456789.0, 0, "123456789"},
        {9007199254740992.0, 6, "9007199254740992"},
        {1e300, 6, "1e+300"},
        {0.1, TML_JSON_ALL_DECIMALS, "0.1"},
        {1.0 / 3, TML_JSON_ALL_DECIMALS, "0.3333333333333333"},
        {DBL_MIN, TML_JSON_ALL_DECIMALS, "2.2250738585072014e-308"},
        {NAN, 3, "null"},
        {INFINITY, 3, "null"},
        {-INFINITY, TML_JSON_ALL_DECIMALS, "null"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[64];
        struct tml_json_writer writer;
        tml_json_writer_fixed(&writer, text, sizeof text);
        tml_json_write_number(&writer, NULL, cases[i].value, cases[i].decimals);
        assert_written(&writer, cases[i].text);
    }
}

static double random_double(void)
{
    union {
        uint64_t bits;
        double value;
    } any;
    do {
        any.bits = 0;
        for (int i = 0; i < 5; i++)
            any.bits = any.bits << 15 ^ (uint64_t)rand();
    } while (!isfinite(any.value));
    return any.value;
}

static void every_double_reads_back_as_itself(void **state)
{
    (void)state;
    srand(11);
    for (int i = 0; i < 20000; i++) {
        char text[64];
        double value = random_double(), again;
        struct tml_json_writer writer;
        tml_json_writer_fixed(&writer, text, sizeof text);
        tml_json_write_number(&writer, NULL, value, TML_JSON_ALL_DECIMALS);
        assert_false(writer.failed);
        again = number_of(text);
        if (again != value)
            print_error("%.17g written as %s, read as %.17g\n", value, text, again);
        assert_true(again == value);
    }
}

static void fixed_writer_never_writes_behind_its_buffer(void **state)
{
    (void)state;
    const char *whole = "{\"key\":\"value\",\"n\":1.5}";
    for (size_t bytes = 0; bytes <= strlen(whole) + 1; bytes++) {
        char *buffer = malloc(bytes + (bytes == 0));
        struct tml_json_writer writer;
        tml_json_writer_fixed(&writer, buffer, bytes);
        tml_json_begin_object(&writer, NULL);
        tml_json_write_string(&writer, "key", "value");
        tml_json_write_ns_as_ms(&writer, "n", 1500000);
        tml_json_end_object(&writer);
        assert_int_equal(writer.failed, bytes <= strlen(whole));
        if (!writer.failed)
            assert_string_equal(buffer, whole);
        assert_null(tml_json_writer_take(&writer)); /* not its own to hand over */
        free(buffer);
    }
}

static void unbalanced_documents_are_not_handed_over(void **state)
{
    (void)state;
    struct tml_json_writer writer;
    tml_json_writer_heap(&writer, 0);
    tml_json_begin_object(&writer, NULL);
    assert_null(tml_json_writer_take(&writer));
    tml_json_writer_heap(&writer, 0);
    tml_json_end_object(&writer);
    assert_null(tml_json_writer_take(&writer));
    tml_json_writer_heap(&writer, 0);
    tml_json_write_uint(&writer, NULL, 1);
    tml_json_writer_drop(&writer);
    assert_null(writer.text);
}

static void heap_writer_grows_as_needed(void **state)
{
    (void)state;
    struct tml_json_writer writer;
    tml_json_writer_heap(&writer, 0);
    tml_json_begin_array(&writer, NULL);
    for (int i = 0; i < 100000; i++)
        tml_json_write_int(&writer, NULL, -i);
    tml_json_end_array(&writer);
    char *text = tml_json_writer_take(&writer);
    assert_non_null(text);
    struct tml_json *root = tml_json_parse(text, strlen(text));
    int count = 0;
    for (const struct tml_json *child = tml_json_first(root); child; child = tml_json_next(child))
        count++;
    assert_int_equal(count, 100000);
    tml_json_free(root);
    free(text);
}

/* ---- Locale ---- */

/* Debian has the sources of all locales and, in a container, none compiled: make one. */
static bool compile_comma_locale(char *directory)
{
    char command[256];
    if (!mkdtemp(directory))
        return false;
    snprintf(command, sizeof command, "localedef -i de_DE -f UTF-8 %s/de_DE.UTF-8 >/dev/null 2>&1", directory);
    return system(command) == 0 && setenv("LOCPATH", directory, 1) == 0 && setlocale(LC_ALL, "de_DE.UTF-8");
}

static void remove_directory(const char *directory)
{
    char command[256];
    snprintf(command, sizeof command, "rm -rf %s", directory);
    if (system(command) != 0)
        print_message("%s is left behind\n", directory);
}

static void check_numbers(void)
{
    char text[64];
    struct tml_json_writer writer;
    assert_true(number_of("1.5") == 1.5);
    assert_true(number_of("-2.5e-3") == -0.0025);
    assert_refused("1,5");
    assert_reprinted("[1.25,1.5e300,0.1]", "[1.25,1.5e+300,0.1]");
    tml_json_writer_fixed(&writer, text, sizeof text);
    tml_json_write_ns_as_ms(&writer, NULL, 1500000);
    tml_json_write_number(&writer, NULL, 2.5, 3);
    tml_json_write_number(&writer, NULL, 1.0 / 3, TML_JSON_ALL_DECIMALS);
    assert_written(&writer, "1.5,2.5,0.3333333333333333");
}

static void numbers_are_the_same_in_a_comma_locale(void **state)
{
    (void)state;
    char directory[] = "/tmp/tml-locale-XXXXXX";
    bool installed = setlocale(LC_ALL, "de_DE.UTF-8") || setlocale(LC_ALL, "fr_FR.UTF-8");
    bool found = installed || compile_comma_locale(directory);
    if (found) {
        assert_string_equal(localeconv()->decimal_point, ",");
        check_numbers();
        assert_string_equal(localeconv()->decimal_point, ","); /* put back */
    }
    setlocale(LC_ALL, "C");
    if (!installed)
        remove_directory(directory);
    if (!found)
        skip();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reader_takes_every_kind_of_value),
        cmocka_unit_test(reader_answers_no_for_what_is_absent_or_of_another_type),
        cmocka_unit_test(reader_refuses_what_is_not_one_json_value),
        cmocka_unit_test(reader_refuses_numbers_that_are_no_json_or_not_finite),
        cmocka_unit_test(reader_refuses_text_that_is_not_utf8),
        cmocka_unit_test(reader_takes_64_levels_and_refuses_more),
        cmocka_unit_test(reader_refuses_a_key_twice_in_one_object),
        cmocka_unit_test(a_refused_text_is_explained_with_its_line),
        cmocka_unit_test(reader_refuses_every_beginning_of_an_object),
        cmocka_unit_test(reader_survives_mutated_text),
        cmocka_unit_test(whole_numbers_are_0_to_2_to_the_53),
        cmocka_unit_test(milliseconds_become_the_exact_nanoseconds),
        cmocka_unit_test(printing_keeps_values_and_order),
        cmocka_unit_test(writer_puts_commas_and_keys_where_they_belong),
        cmocka_unit_test(writer_indents_when_asked),
        cmocka_unit_test(writer_escapes_strings_and_replaces_what_is_not_utf8),
        cmocka_unit_test(nanoseconds_are_written_as_exact_milliseconds),
        cmocka_unit_test(numbers_have_at_most_the_decimals_asked_for),
        cmocka_unit_test(every_double_reads_back_as_itself),
        cmocka_unit_test(fixed_writer_never_writes_behind_its_buffer),
        cmocka_unit_test(unbalanced_documents_are_not_handed_over),
        cmocka_unit_test(heap_writer_grows_as_needed),
        cmocka_unit_test(numbers_are_the_same_in_a_comma_locale),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
