#include "process.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define START_FIELD 22 /* of proc(5)'s stat; the state is the third, the first behind the name */
#define STATE_FIELD 3

void tml_process_host(char host[TML_PROCESS_HOST_BYTES])
{
    memset(host, 0, TML_PROCESS_HOST_BYTES); /* a name that does not fit may come without its end */
    gethostname(host, TML_PROCESS_HOST_BYTES - 1);
    for (char *c = host; *c; c++)
        if ((unsigned char)*c < 0x20 || *c == 0x7f) /* it becomes a part of a line of the report */
            *c = '?';
}

static ssize_t read_stat(uint64_t pid, char *text, size_t bytes)
{
    char path[48];
    snprintf(path, sizeof path, "/proc/%" PRIu64 "/stat", pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return -1;
    ssize_t length = read(fd, text, bytes - 1);
    close(fd);
    text[length > 0 ? length : 0] = '\0';
    return length;
}

uint64_t tml_process_start_ticks(uint64_t pid)
{
    char text[1024];
    if (read_stat(pid, text, sizeof text) <= 0)
        return 0;
    const char *at = strrchr(text, ')'); /* the name before it may hold anything */
    if (!at || at[1] != ' ' || at[2] == 'Z' || at[2] == 'X')
        return 0;
    for (int field = STATE_FIELD - 1; at && field < START_FIELD; field++)
        at = strchr(at + 1, ' ');
    return at ? strtoull(at, NULL, 10) : 0;
}
