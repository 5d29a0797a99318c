/*
 * The report for a CUDA program: a two-layer perceptron trained by kernels of its own, batches copied inside each step.
 *
 *   nvcc -cudart shared cuda_loop.cu -ltraceml -o cuda_loop && ./cuda_loop [LOGS_DIR] [STEPS]
 *
 * TraceML uses the CUDA runtime that the program has: it must be the shared one (-cudart shared; nvcc's default is the
 * static one, of which nothing can be seen from outside; then the program says so in one line).
 */
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include <dlfcn.h>

#include <traceml/traceml.h>

namespace
{

constexpr int BATCH = 1024, IN = 1024, HIDDEN = 1024, DEFAULT_STEPS = 200;

void check(cudaError_t error, const char *what)
{
    if (error == cudaSuccess)
        return;
    std::fprintf(stderr, "cuda_loop: %s: %s\n", what, cudaGetErrorString(error));
    std::exit(1);
}

/* c[m][n] = sum over k of a(m, k) * b(k, n), each optionally transposed; one thread an element. */
__global__ void matmul(const float *a, const float *b, float *c, int m, int n, int k, bool a_t, bool b_t)
{
    int column = blockIdx.x * blockDim.x + threadIdx.x, row = blockIdx.y * blockDim.y + threadIdx.y;
    if (row >= m || column >= n)
        return;
    float sum = 0;
    for (int i = 0; i < k; i++)
        sum += (a_t ? a[i * m + row] : a[row * k + i]) * (b_t ? b[column * k + i] : b[i * n + column]);
    c[row * n + column] = sum;
}

__global__ void relu(float *x, int count)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count && x[i] < 0)
        x[i] = 0;
}

/* Mean squared error towards `target`: its gradient, in place of the output. */
__global__ void loss_gradient(float *out, const float *target, int count)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count)
        out[i] = 2 * (out[i] - target[i]) / count;
}

__global__ void sgd(float *weights, const float *gradient, float rate, int count)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count)
        weights[i] -= rate * gradient[i];
}

float *device_floats(int count)
{
    float *memory;
    check(cudaMalloc(&memory, count * sizeof *memory), "cudaMalloc");
    check(cudaMemset(memory, 0, count * sizeof *memory), "cudaMemset");
    return memory;
}

void launch_matmul(cudaStream_t s, const float *a, const float *b, float *c, int m, int n, int k, bool a_t, bool b_t)
{
    dim3 block(16, 16), grid((n + 15) / 16, (m + 15) / 16);
    matmul<<<grid, block, 0, s>>>(a, b, c, m, n, k, a_t, b_t);
}

int blocks(int count)
{
    return (count + 255) / 256;
}

/* A span of one phase for the lifetime of the object. */
struct Span {
    traceml_session *session;
    traceml_span span;
    Span(traceml_session *session, traceml_phase phase, traceml_stream stream)
        : session(session), span(traceml_begin(session, phase, stream))
    {
    }
    ~Span()
    {
        traceml_end(session, span, 0);
    }
};

void train(traceml_session *session, cudaStream_t stream, int steps)
{
    traceml_stream where = {0, stream};
    std::vector<float> start(IN * HIDDEN);
    for (float &w : start)
        w = 0.05f * (float(std::rand()) / RAND_MAX - 0.5f);
    float *w1 = device_floats(IN * HIDDEN), *w2 = device_floats(HIDDEN * IN);
    check(cudaMemcpy(w1, start.data(), start.size() * sizeof(float), cudaMemcpyHostToDevice), "weights");
    check(cudaMemcpy(w2, start.data(), start.size() * sizeof(float), cudaMemcpyHostToDevice), "weights");
    float *x = device_floats(BATCH * IN), *hidden = device_floats(BATCH * HIDDEN), *out = device_floats(BATCH * IN);
    float *g1 = device_floats(IN * HIDDEN), *g2 = device_floats(HIDDEN * IN), *gh = device_floats(BATCH * HIDDEN);
    float *batch;
    check(cudaMallocHost(&batch, BATCH * IN * sizeof *batch), "cudaMallocHost");

    for (int step = 0; step < steps; step++) {
        {
            Span fetch(session, TRACEML_PHASE_DATALOADER_FETCH, traceml_last_stream(session));
            check(cudaStreamSynchronize(stream), "the batch is in use until here");
            for (int i = 0; i < BATCH * IN; i++)
                batch[i] = float((i * 2654435761u + step) & 0xffff) / 65536.0f;
        }
        traceml_span whole = traceml_step_begin(session, where);
        {
            Span h2d(session, TRACEML_PHASE_H2D, where);
            check(cudaMemcpyAsync(x, batch, BATCH * IN * sizeof *x, cudaMemcpyHostToDevice, stream), "copy");
        }
        {
            Span forward(session, TRACEML_PHASE_FORWARD, where);
            launch_matmul(stream, x, w1, hidden, BATCH, HIDDEN, IN, false, false);
            relu<<<blocks(BATCH * HIDDEN), 256, 0, stream>>>(hidden, BATCH * HIDDEN);
            launch_matmul(stream, hidden, w2, out, BATCH, IN, HIDDEN, false, false);
        }
        {
            Span backward(session, TRACEML_PHASE_BACKWARD, where);
            loss_gradient<<<blocks(BATCH * IN), 256, 0, stream>>>(out, x, BATCH * IN);
            launch_matmul(stream, hidden, out, g2, HIDDEN, IN, BATCH, true, false);
            launch_matmul(stream, out, w2, gh, BATCH, HIDDEN, IN, false, true);
            launch_matmul(stream, x, gh, g1, IN, HIDDEN, BATCH, true, false);
        }
        {
            Span optimizer(session, TRACEML_PHASE_OPTIMIZER, where);
            sgd<<<blocks(IN * HIDDEN), 256, 0, stream>>>(w1, g1, 0.1f, IN * HIDDEN);
            sgd<<<blocks(HIDDEN * IN), 256, 0, stream>>>(w2, g2, 0.1f, HIDDEN * IN);
        }
        traceml_step_end(session, whole, 0);
        check(cudaGetLastError(), "a kernel of the step");
    }
    check(cudaDeviceSynchronize(), "the loop");
}

bool runtime_is_shared()
{
    for (const char *name : {"libcudart.so.13", "libcudart.so.12", "libcudart.so.11.0"})
        if (dlopen(name, RTLD_NOW | RTLD_NOLOAD))
            return true;
    return false;
}

} // namespace

int main(int argc, char **argv)
{
    traceml_options options;
    traceml_session *session;
    char error[512];
    if (!runtime_is_shared())
        std::fprintf(stderr, "cuda_loop: the CUDA runtime is linked statically: the copies and synchronising calls of "
                             "this program cannot be seen; build with -cudart shared\n");
    traceml_options_init(&options);
    options.program = "cuda_loop";
    options.logs_dir = argc > 1 ? argv[1] : "logs";
    if (traceml_session_open(&options, &session, error, sizeof error) != TRACEML_OK) {
        std::fprintf(stderr, "cuda_loop: %s\n", error);
        return 1;
    }
    char *run_dir = strdup(traceml_run_dir(session));
    cudaStream_t stream;
    check(cudaStreamCreate(&stream), "cudaStreamCreate");
    train(session, stream, argc > 2 ? std::atoi(argv[2]) : DEFAULT_STEPS);
    traceml_session_close(session, nullptr);

    traceml_report_options report_options;
    traceml_report report;
    traceml_report_options_init(&report_options);
    if (traceml_report_read(run_dir, &report_options, &report, error, sizeof error) != TRACEML_OK ||
        traceml_report_write(run_dir, &report, error, sizeof error) != TRACEML_OK) {
        std::fprintf(stderr, "cuda_loop: %s\n", error);
        return 1;
    }
    std::fputs(report.text, stdout);
    traceml_report_free(&report);
    std::free(run_dir);
    return 0;
}
