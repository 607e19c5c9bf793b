/* Connections on TCP. The runner listens on the loopback interface alone: a board is reached through a forwarded port (adb, ssh).
 *
 * A client first sends 64 bytes: the secret of DEVMOD_HEXAGON_SECRET, padded with zeros. A wrong secret ends the connection, and so do
 * SECONDS without one: each connection has a process.
 */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "runner.h"

enum { SECRET = 64, SHORTEST_SECRET = 32 };

static void fail(const char *text)
{
    fprintf(stderr, "devmod-hexagon runner: %s\n", text);
    exit(2);
}

/* Compare in a time that does not depend on the contents. */
static int is_equal(const uint8_t first[SECRET], const uint8_t second[SECRET])
{
    uint8_t difference = 0;

    for (int number = 0; number < SECRET; number++)
        difference |= first[number] ^ second[number];
    return difference == 0;
}

static int has_secret(int connection, const uint8_t secret[SECRET])
{
    uint8_t sent[SECRET];
    size_t size = 0;

    while (size < SECRET) {
        ssize_t count = read(connection, sent + size, SECRET - size);
        if (count <= 0)
            return 0;
        size += (size_t)count;
    }
    return is_equal(sent, secret);
}

void serve(int port, int seconds)
{
    const char *text = getenv("DEVMOD_HEXAGON_SECRET");
    uint8_t secret[SECRET] = {0};
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof address;
    int listener = socket(AF_INET, SOCK_STREAM, 0), on = 1;

    if (!text || strlen(text) < SHORTEST_SECRET || strlen(text) > SECRET)
        fail("DEVMOD_HEXAGON_SECRET must have 32 to 64 characters");
    if (seconds < 1)
        fail("expected a number of seconds above 0");
    memcpy(secret, text, strlen(text));
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (bind(listener, (struct sockaddr *)&address, sizeof address) || listen(listener, 8))
        fail("the port is in use");
    getsockname(listener, (struct sockaddr *)&address, &size);
    printf("listening on 127.0.0.1:%d\n", ntohs(address.sin_port));
    fflush(stdout);
    signal(SIGCHLD, SIG_IGN);
    for (;;) {
        int connection = accept(listener, NULL, NULL);
        if (connection < 0)
            continue;
        if (fork() == 0) {
            close(listener);
            alarm((unsigned)seconds); /* SIGALRM ends the process */
            if (!has_secret(connection, secret))
                _exit(1);
            alarm(0);
            setsockopt(connection, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
            dup2(connection, 0);
            dup2(connection, 1);
            close(connection);
            return;
        }
        close(connection);
    }
}
