#include "clock_tie.h"

#include <math.h>

void tml_clock_tie_init(struct tml_clock_tie *tie)
{
    *tie = (struct tml_clock_tie){.device = -1, .tried_ns = TML_NS_NONE, .drift = TML_CLOCK_TIE_DRIFT};
}

static bool is_due(const struct tml_clock_tie *tie, int64_t now_ns)
{
    int64_t wait_ns = tie->refused_last ? TML_CLOCK_TIE_RETRY_NS : TML_CLOCK_TIE_PERIOD_NS;
    return tie->tried_ns == TML_NS_NONE || now_ns - tie->tried_ns >= wait_ns;
}

static bool has_objects(struct tml_clock_tie *tie, struct tml_cuda *cuda, int device)
{
    if (!tie->stream) {
        tie->device = device;
        tie->stream = tml_cuda_stream_create(cuda, device);
    }
    if (tie->stream && !tie->spare)
        tie->spare = tml_cuda_event_create(cuda, device);
    return tie->stream && tie->spare;
}

/* Records the spare and looks for its completion, bounded by the limit. The width of the interval in which it was seen to
 * complete: from the entry of the last query that said not yet (*begin_ns), or of the record if there was none, to the
 * return of the first that said done; TML_NS_NONE when that was not in time. */
static int64_t look(struct tml_clock_tie *tie, struct tml_cuda *cuda, int64_t *begin_ns)
{
    int64_t asked_ns, answered_ns, recorded_ns = *begin_ns = tml_now_ns();
    int state;
    if (tml_cuda_record(cuda, tie->device, tie->stream, tie->spare) != 0)
        return TML_NS_NONE;
    do {
        asked_ns = tml_now_ns();
        state = tml_cuda_query(cuda, tie->spare);
        answered_ns = tml_now_ns();
        if (state == TML_CUDA_ERROR_NOT_READY)
            *begin_ns = asked_ns;
    } while (state == TML_CUDA_ERROR_NOT_READY && answered_ns - recorded_ns <= TML_CLOCK_TIE_LIMIT_NS);
    tie->late = state == TML_CUDA_ERROR_NOT_READY;
    bool in_time = state == 0 && answered_ns - recorded_ns <= TML_CLOCK_TIE_LIMIT_NS;
    return in_time ? answered_ns - *begin_ns : TML_NS_NONE;
}

/* How fast the two clocks part, as this tie and the one before saw it. */
static double drift_since(const struct tml_clock_tie *tie, struct tml_cuda *cuda, int64_t host_ns)
{
    int64_t device_ns = tie->event ? tml_cuda_elapsed_ns(cuda, tie->event, tie->spare) : TML_NS_NONE;
    if (device_ns == TML_NS_NONE || host_ns <= tie->host_ns)
        return TML_CLOCK_TIE_DRIFT;
    double passed_ns = (double)(host_ns - tie->host_ns);
    return fmax(fabs((double)device_ns - passed_ns) / passed_ns, TML_CLOCK_TIE_DRIFT);
}

static void take(struct tml_clock_tie *tie, struct tml_cuda *cuda, int64_t host_ns, int64_t error_ns)
{
    void *before = tie->event;
    tie->drift = drift_since(tie, cuda, host_ns);
    tie->event = tie->spare;
    tie->spare = before;
    tie->host_ns = host_ns;
    tie->error_ns = error_ns;
    tie->made++;
}

void tml_clock_tie_renew(struct tml_clock_tie *tie, struct tml_cuda *cuda, int device, int64_t now_ns)
{
    if (!tml_cuda_usable(cuda) || !is_due(tie, now_ns))
        return;
    int64_t begin_ns, width_ns = TML_NS_NONE;
    tie->tried_ns = now_ns;
    if (tie->late) /* one record at a time: they would queue up behind the work that delays them */
        tie->late = tml_cuda_query(cuda, tie->spare) == TML_CUDA_ERROR_NOT_READY;
    if (!tie->late && has_objects(tie, cuda, device))
        width_ns = look(tie, cuda, &begin_ns);
    tie->refused_last = width_ns == TML_NS_NONE;
    if (tie->refused_last)
        tie->refused++;
    else
        take(tie, cuda, begin_ns + width_ns / 2, width_ns);
}

int64_t tml_clock_tie_host_ns(const struct tml_clock_tie *tie, struct tml_cuda *cuda, int device, void *event,
                              int64_t *error_ns)
{
    int64_t since_ns = TML_NS_NONE;
    if (tie->event && tie->device == device)
        since_ns = tml_cuda_elapsed_ns(cuda, tie->event, event);
    if (since_ns == TML_NS_NONE)
        return TML_NS_NONE;
    double error = (double)tie->error_ns + fabs((double)since_ns) * tie->drift;
    *error_ns = error <= (double)TML_CLOCK_TIE_LIMIT_NS ? llround(error) : TML_NS_NONE;
    return *error_ns == TML_NS_NONE ? TML_NS_NONE : tie->host_ns + since_ns;
}

void tml_clock_tie_close(struct tml_clock_tie *tie, struct tml_cuda *cuda)
{
    void *events[] = {tie->event, tie->spare};
    for (unsigned i = 0; i < 2 && tml_cuda_usable(cuda); i++)
        if (events[i] && cuda->cudaEventDestroy(events[i]) != 0)
            cuda->cudaGetLastError();
    if (tie->stream && tml_cuda_usable(cuda) && cuda->cudaStreamDestroy(tie->stream) != 0)
        cuda->cudaGetLastError();
    tml_clock_tie_init(tie);
}
