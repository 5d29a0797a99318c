/*
 * Purpose   tells whether the process that wrote a file still lives: its host, its id, and when it started, since ids
 *           are used again.
 * Memory    the caller's buffers.
 * Threads   any.
 * Units     clock ticks since the machine booted, as the kernel has them; 0 for unknown.
 * Depends   /proc.
 */
#ifndef TML_PROCESS_H
#define TML_PROCESS_H

#include <stdint.h>

#define TML_PROCESS_HOST_BYTES 256

void tml_process_host(char host[TML_PROCESS_HOST_BYTES]);
/* 0 when there is no such process, or it has ended and waits for its parent to notice. */
uint64_t tml_process_start_ticks(uint64_t pid);

#endif
