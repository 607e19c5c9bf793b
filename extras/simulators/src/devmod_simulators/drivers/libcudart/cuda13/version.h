/* The major version of the library. */
#define RUNTIME_MAJOR 13
