/*
 * A whole run directory, from its files to the report. The input is those files one after the other, with a form feed
 * between them: steps of rank 0, of rank 1, manifest.json, final_summary.json; an empty part is a file that is not
 * there. Whatever the bytes are: a report whose JSON our own reader takes and whose text steers no terminal, or one line
 * that names the place.
 */
#include <stdint.h>
#include <string.h>

#include "folder.h"
#include "json.h"
#include "traceml/traceml.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static const char *const names[FOLDER_MOST_FILES] = {"steps-rank00000.jsonl", "steps-rank00001.jsonl", "manifest.json",
                                                     "final_summary.json"};

static void check(const struct traceml_report *report)
{
    struct tml_json *root = tml_json_parse(report->json, strlen(report->json));
    require(root, "the report is JSON");
    require(tml_json_is_object(tml_json_get(root, "step_time")), "the report has its section");
    require(tml_json_string(tml_json_get(root, "text")), "the report has its text");
    tml_json_free(root);
    require(is_plain(report->text), "the text is UTF-8 without control characters");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    struct traceml_report report;
    struct traceml_report_options options;
    char error[512] = "";
    if (!open_once())
        return 0;
    put_parts((const char *)data, (const char *)data + bytes);
    traceml_report_options_init(&options);
    options.window_steps = 20;
    enum traceml_status status = traceml_report_read(path, &options, &report, error, sizeof error);
    if (status == TRACEML_OK) {
        check(&report);
    } else {
        require(strstr(error, path) && !strchr(error, '\n'), "the error is one line that names the place");
        require(!report.json && !report.text, "no report with an error");
    }
    traceml_report_free(&report);
    return 0;
}
