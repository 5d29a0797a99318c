/* Memory: the device's is the host's, so that copies are real; a list says what each block is. */
#include "fake_cuda_state.h"

#include <stdlib.h>

struct block {
    struct block *next;
    enum fcuda_memory_kind kind;
    int device;
    char *at;
    size_t bytes;
};

static struct block *blocks;

static struct block **find(const void *pointer)
{
    struct block **link = &blocks;

    while (*link && ((const char *)pointer < (*link)->at || (const char *)pointer >= (*link)->at + (*link)->bytes))
        link = &(*link)->next;
    return link;
}

static int add(struct fcuda_thread *thread, enum fcuda_memory_kind kind, void *at, size_t bytes)
{
    struct block *block = malloc(sizeof(*block));

    if (!block)
        return FCUDA_OUT_OF_MEMORY;
    *block = (struct block){.next = blocks, .kind = kind, .device = thread->device, .at = at, .bytes = bytes};
    blocks = block;
    return FCUDA_OK;
}

int fcuda_memory_take(struct fcuda_thread *thread, enum fcuda_memory_kind kind, void **at, size_t bytes)
{
    if (!at)
        return FCUDA_INVALID_VALUE;
    *at = NULL;
    if (bytes == 0)
        return FCUDA_OK;
    void *memory = malloc(bytes);
    int error = memory ? add(thread, kind, memory, bytes) : FCUDA_OUT_OF_MEMORY;
    if (error)
        free(memory);
    else
        *at = memory;
    return error;
}

/* Taking memory from a stream's pool is refused like any allocation, except on a stream that is itself in capture. */
int fcuda_memory_take_async(struct fcuda_thread *thread, void **at, size_t bytes, cudaStream_t handle)
{
    struct fcuda_stream *stream;
    int error = fcuda_stream_find(thread, thread->device, handle, &stream);

    if (!error && !stream->capture)
        error = fcuda_capture_refuse(thread);
    if (!error)
        error = fcuda_stream_submit(stream, 0);
    return error ? error : fcuda_memory_take(thread, FCUDA_DEVICE, at, bytes);
}

int fcuda_memory_register(struct fcuda_thread *thread, void *at, size_t bytes)
{
    if (!at || bytes == 0)
        return FCUDA_INVALID_VALUE;
    return *find(at) ? FCUDA_ALREADY_REGISTERED : add(thread, FCUDA_REGISTERED, at, bytes);
}

static void drop(struct block **link)
{
    struct block *block = *link;

    *link = block->next;
    if (block->kind != FCUDA_REGISTERED)
        free(block->at);
    free(block);
}

int fcuda_memory_give_back(enum fcuda_memory_kind kind, void *at)
{
    struct block **link = find(at);

    if (!at && kind != FCUDA_REGISTERED)
        return FCUDA_OK;
    if (!*link || (*link)->kind != kind || (*link)->at != at)
        return kind == FCUDA_REGISTERED ? FCUDA_NOT_REGISTERED : FCUDA_INVALID_VALUE;
    drop(link);
    return FCUDA_OK;
}

void fcuda_memory_describe(const void *pointer, struct cudaPointerAttributes *attributes)
{
    const struct block *block = *find(pointer);

    *attributes = (struct cudaPointerAttributes){.type = FCUDA_UNREGISTERED, .device = -2};
    if (!block)
        return;
    attributes->type = block->kind == FCUDA_DEVICE ? 2 : 1;
    attributes->device = block->device;
    attributes->devicePointer = block->at + ((const char *)pointer - block->at);
    if (block->kind != FCUDA_DEVICE)
        attributes->hostPointer = attributes->devicePointer;
}

void fcuda_memory_reset(void)
{
    while (blocks)
        drop(&blocks);
}
