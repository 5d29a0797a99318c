// The header in C++: it compiles without warnings, and its functions have C linkage.
#include <cstdio>
#include <cstring>
#include <traceml/traceml.h>

int main()
{
    traceml_report_options options;
    traceml_report_options_init(&options);
    traceml_stream none = TRACEML_NO_STREAM;
    std::printf("traceml %s\n", traceml_version());
    return options.size == sizeof options && none.device < 0 && std::strlen(traceml_status_text(TRACEML_OK)) > 0 ? 0
                                                                                                                 : 1;
}
