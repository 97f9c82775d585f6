/* SPDX-License-Identifier: Apache-2.0
 *
 * writer MILLISECONDS NAME DIRECTORY
 *
 * Never stops writing: counts up in DIRECTORY/counter, makes each number
 * durable, and only then prints "w NAME NUMBER" to the console.  Goes on
 * from the number it finds, so the count never falls, whatever happens to
 * the machine.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    char path[256], text[64];
    long pause_ms, count = 0;
    int file, console;

    if (argc != 4)
        return 2;
    pause_ms = atol(argv[1]);
    snprintf(path, sizeof path, "%s/counter", argv[3]);
    file = open(path, O_RDWR | O_CREAT, 0644);
    console = open("/dev/console", O_WRONLY);
    if (file < 0 || console < 0)
        return 1;
    if (read(file, text, sizeof text - 1) > 0)
        count = atol(text);
    for (;;) {
        struct timespec pause = {pause_ms / 1000,
                                 pause_ms % 1000 * 1000000};
        int length = snprintf(text, sizeof text, "%012ld\n", ++count);

        if (pwrite(file, text, length, 0) != length || fsync(file))
            return 1;
        length = snprintf(text, sizeof text, "w %s %ld\n", argv[2], count);
        if (write(console, text, length) != length)
            return 1;
        nanosleep(&pause, NULL);
    }
}
