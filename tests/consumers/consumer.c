/* The smallest program on an installed libtraceml: the library that runs is the one that the header belongs to. */
#include <stdio.h>
#include <string.h>
#include <traceml/traceml.h>

int main(void)
{
    char version[32];
    snprintf(version, sizeof version, "%d.%d.%d", TRACEML_VERSION_MAJOR, TRACEML_VERSION_MINOR, TRACEML_VERSION_PATCH);
    printf("traceml %s\n", traceml_version());

    struct traceml_options options;
    traceml_options_init(&options);

    struct traceml_report report;
    char error[256] = "";
    enum traceml_status status = traceml_report_read("/no/such/run", NULL, &report, error, sizeof error);
    printf("%s: %s\n", traceml_status_text(status), error);
    return strcmp(version, traceml_version()) == 0 && options.size == sizeof options && status == TRACEML_NOT_FOUND ? 0
                                                                                                                    : 1;
}
