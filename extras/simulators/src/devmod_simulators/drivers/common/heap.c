/* Memory of the process itself, which ends where there is none left. */
#include "standin.h"

#include <stdlib.h>

void *zeroed(size_t size) {
    void *memory = calloc(1, size ? size : 1);
    if (!memory)
        abort();
    return memory;
}

void *with_room(void *array, size_t count, size_t size) {
    array = realloc(array, (count + 1) * size);
    if (!array)
        abort();
    return array;
}
