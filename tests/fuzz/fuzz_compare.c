/*
 * Two summaries, from their files to the comparison. The input is both documents with a form feed between them. Whatever
 * the bytes are: a comparison whose JSON our own reader takes and whose text steers no terminal, or one line that names
 * the file.
 */
#include <stdint.h>
#include <string.h>

#include "folder.h"
#include "json.h"
#include "traceml/traceml.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static const char *const names[FOLDER_MOST_FILES] = {"old.json", "new.json"};

static void check(const struct traceml_comparison *made)
{
    struct tml_json *root = tml_json_parse(made->json, strlen(made->json));
    require(root, "the comparison is JSON");
    require(tml_json_is_object(tml_json_get(root, "metrics")), "the comparison has its metrics");
    require(tml_json_string(tml_json_get(root, "verdict")), "the comparison has its verdict");
    tml_json_free(root);
    require(is_plain(made->text), "the text is UTF-8 without control characters");
    require(made->limit != TRACEML_LIMIT_NONE, "a limit that was asked for is answered");
    require(made->verdict != TRACEML_VERDICT_INCONCLUSIVE || made->limit == TRACEML_LIMIT_INCONCLUSIVE,
            "without a verdict the limit is not answered");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    struct traceml_comparison made;
    struct traceml_compare_options options;
    char old_path[80], new_path[80], error[512] = "";
    if (!open_once())
        return 0;
    put_parts((const char *)data, (const char *)data + bytes);
    snprintf(old_path, sizeof old_path, "%s/%s", path, names[0]);
    snprintf(new_path, sizeof new_path, "%s/%s", path, names[1]);
    traceml_compare_options_init(&options);
    options.max_step_time_regression_pct = 5;
    enum traceml_status status = traceml_compare(old_path, new_path, &options, &made, error, sizeof error);
    if (status == TRACEML_OK) {
        check(&made);
    } else {
        require(strstr(error, path) && !strchr(error, '\n'), "the error is one line that names the file");
        require(!made.json && !made.text, "no comparison with an error");
    }
    traceml_comparison_free(&made);
    return 0;
}
