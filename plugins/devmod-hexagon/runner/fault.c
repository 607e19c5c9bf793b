/* Reports the fault of a kernel to the host: the signal, the address and the place in the kernel,
 * or a failed assertion. Then the process ends. */
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <ucontext.h>

#include "runner.h"

/* The handler has its own stack, because the fault may be a stack overflow. */
static uint8_t signal_stack[32768] __attribute__((aligned(16)));

static const char *signal_name(int number) {
    switch (number) {
    case SIGSEGV:
        return "SIGSEGV";
    case SIGBUS:
        return "SIGBUS";
    case SIGILL:
        return "SIGILL";
    case SIGFPE:
        return "SIGFPE";
    case SIGTRAP:
        return "SIGTRAP";
    case SIGABRT:
        return "SIGABRT";
    default:
        return "a signal";
    }
}

static void handle(int number, siginfo_t *info, void *context) {
    char place[MAX_NAME / 2], text[MAX_NAME];
    const ucontext_t *machine = context;
    uint32_t pc = (uint32_t)machine->uc_mcontext.pc;
    /* qemu 10 leaves p3_0 out of the registers, so that pc is one word earlier. */
    uint32_t earlier = (uint32_t)machine->uc_mcontext.ugp;

    if (!describe_address(pc, place, sizeof place) &&
        !describe_address(earlier, place, sizeof place))
        describe_address(pc, place, sizeof place);
    snprintf(text, sizeof text, "%s at address 0x%08x in %s", signal_name(number),
             (unsigned)(uintptr_t)info->si_addr, place);
    reply_last("fault", text);
}

void fault_install(void) {
    static const int numbers[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGTRAP, SIGABRT};
    stack_t alternate = {.ss_sp = signal_stack, .ss_size = sizeof signal_stack};
    struct sigaction action;

    memset(&action, 0, sizeof action);
    action.sa_sigaction = handle;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESETHAND;
    sigaltstack(&alternate, NULL);
    for (size_t number = 0; number < sizeof numbers / sizeof *numbers; number++)
        sigaction(numbers[number], &action, NULL);
}

void fail_assertion(const char *condition, const char *file, int line, const char *function) {
    char text[MAX_NAME];

    snprintf(text, sizeof text, "%s:%d: the assertion '%s' failed in %s", file, line, condition,
             function);
    reply_last("fault", text);
}

void fail_abort(void) {
    char place[MAX_NAME / 2], text[MAX_NAME];

    describe_address((uint32_t)__builtin_return_address(0), place, sizeof place);
    snprintf(text, sizeof text, "abort() was called in %s", place);
    reply_last("fault", text);
}
