/*
 * Runs a fuzz target over files without libFuzzer, so that any compiler and sanitizer can run what fuzzing found: each
 * file whole, cut in up to 64 places, and with one bit turned in as many.
 *
 *   corpus_NAME FOLDER
 */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PLACES 64

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static uint8_t *read_file(const char *folder, const char *name, size_t *bytes)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "rb");
    uint8_t *data = NULL;
    if (file && fseek(file, 0, SEEK_END) == 0) {
        *bytes = (size_t)ftell(file);
        rewind(file);
        data = malloc(*bytes + 1);
        if (data && fread(data, 1, *bytes, file) != *bytes) {
            free(data);
            data = NULL;
        }
    }
    if (file)
        fclose(file);
    return data;
}

static void run(uint8_t *data, size_t bytes)
{
    LLVMFuzzerTestOneInput(data, bytes);
    for (size_t i = 0; i < PLACES && bytes > 0; i++) {
        size_t at = bytes * i / PLACES;
        LLVMFuzzerTestOneInput(data, at);
        data[at] ^= (uint8_t)(1 << i % 8);
        LLVMFuzzerTestOneInput(data, bytes);
        data[at] ^= (uint8_t)(1 << i % 8);
    }
}

int main(int argc, char **argv)
{
    unsigned files = 0;
    DIR *folder = argc == 2 ? opendir(argv[1]) : NULL;
    if (!folder) {
        fprintf(stderr, "usage: %s FOLDER\n", argv[0]);
        return 2;
    }
    for (struct dirent *entry; (entry = readdir(folder));) {
        size_t bytes = 0;
        uint8_t *data = entry->d_name[0] == '.' ? NULL : read_file(argv[1], entry->d_name, &bytes);
        if (data) {
            run(data, bytes);
            files++;
        }
        free(data);
    }
    closedir(folder);
    printf("%u files\n", files);
    return files > 0 ? 0 : 1;
}
