// Stands in for libcuda when a program is linked: every driver function looks up its namesake in libcuda.so.1 when it is
// first called. So a program with the CUDA device starts on a machine without a driver, and says what is missing when the
// device is opened. SYMBOLS(F) is F(name) for each function of cuda.h.
#include <dlfcn.h>
#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include "symbols.h"

typedef long word;
// A driver function takes at most this many words of arguments, in registers and on the stack. Words beyond those that
// the caller gave are passed on unread; no function has floating-point arguments that matter here.
#define PARAMETERS word a0, word a1, word a2, word a3, word a4, word a5, word a6, word a7, word a8, word a9, word a10, word a11, word a12, word a13
#define ARGUMENTS a0, a1, a2, a3, a4, a5, a6, a7, a8, a9, a10, a11, a12, a13
typedef word (*function)(PARAMETERS);

static void *library;
static char missing[512];
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void load(void) {
    library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);
    if (!library) snprintf(missing, sizeof missing, "%s", dlerror());
}

// penstock_driver_missing tells why there is no driver, or returns null.
const char *penstock_driver_missing(void) {
    pthread_once(&once, load);
    return library ? NULL : missing;
}

// Without a driver, cuInit succeeds, since it is called before main; everything else fails as "not initialized".
static word no_init(PARAMETERS) { return 0; }
static word no_driver(PARAMETERS) { return 3; }

static function find(const char *name) {
    pthread_once(&once, load);
    function f = library ? (function)dlsym(library, name) : NULL;
    if (!f) f = strcmp(name, "cuInit") == 0 ? no_init : no_driver;
    return f;
}

#define FORWARD(name)                                              \
    word name(PARAMETERS) {                                        \
        static function f;                                         \
        function g = __atomic_load_n(&f, __ATOMIC_RELAXED);        \
        if (!g) __atomic_store_n(&f, g = find(#name), __ATOMIC_RELAXED); \
        return g(ARGUMENTS);                                       \
    }
SYMBOLS(FORWARD)
