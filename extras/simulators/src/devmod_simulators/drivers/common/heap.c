/* Memory of the process itself, which ends where there is none left. */
#include "standin.h"

#include <stdlib.h>

/* Return new memory, zeros. */
void *zeroed(size_t size) {
    void *memory = calloc(1, size ? size : 1);
    if (!memory)
        abort();
    return memory;
}

/* Return an array with room for one more element behind `count`. */
void *with_room(void *array, size_t count, size_t size) {
    array = realloc(array, (count + 1) * size);
    if (!array)
        abort();
    return array;
}
