/* User objects: data of the program that graphs use, with a count of references.
 *
 * The last reference may end within any call. So another thread calls the destructor, as CUDA
 * documents it: a program that expects it in its own thread shows.
 */
#include "driver.h"

#include <stdlib.h>

struct UserObject {
    void *handle;
    void *data;
    void (*destroy)(void *);
    unsigned references;
};

static void *destroy_in_thread(void *pointer) {
    UserObject *object = pointer;
    pthread_mutex_lock(&big_lock);
    call_unlocked(object->destroy, object->data);
    pthread_mutex_unlock(&big_lock);
    free(object);
    return NULL;
}

static void release(UserObject *object, unsigned count) {
    pthread_t thread;
    object->references -= count;
    if (object->references)
        return;
    handle_drop(HANDLE_USER_OBJECT, object->handle);
    if (pthread_create(&thread, NULL, destroy_in_thread, object) == 0)
        pthread_detach(thread);
}

int user_object_create(void **handle, void *data, void (*destroy)(void *), unsigned references) {
    CHECK(handle && destroy && references && references <= INT32_MAX, CODE_INVALID_VALUE);
    UserObject *object = zeroed(sizeof *object);
    *object =
        (UserObject){handle_make(HANDLE_USER_OBJECT, object, NULL), data, destroy, references};
    *handle = object->handle;
    return CODE_SUCCESS;
}

int user_object_retain(void *handle, unsigned count) {
    UserObject *object = handle_get(HANDLE_USER_OBJECT, handle);
    CHECK(object && count && count <= INT32_MAX - object->references, CODE_INVALID_VALUE);
    object->references += count;
    return CODE_SUCCESS;
}

int user_object_release(void *handle, unsigned count) {
    UserObject *object = handle_get(HANDLE_USER_OBJECT, handle);
    CHECK(object && count, CODE_INVALID_VALUE);
    if (count > object->references) {
        violation("%u references to a user object are released, and it has %u", count,
                  object->references);
        return CODE_INVALID_VALUE;
    }
    release(object, count);
    return CODE_SUCCESS;
}

static void add_objects(Graph *graph, UserObject *object, unsigned count) {
    while (count--) {
        graph->objects =
            with_room(graph->objects, (size_t)graph->object_count, sizeof(UserObject *));
        graph->objects[graph->object_count++] = object;
    }
}

int graph_retain_object(void *handle, void *object_handle, unsigned count, bool moves) {
    Graph *graph = graph_of(handle);
    UserObject *object = handle_get(HANDLE_USER_OBJECT, object_handle);
    CHECK(graph && object && count, CODE_INVALID_VALUE);
    CHECK(!moves || count <= object->references, CODE_INVALID_VALUE);
    if (!moves)
        TRY(user_object_retain(object_handle, count));
    add_objects(graph, object, count);
    return CODE_SUCCESS;
}

int graph_release_object(void *handle, void *object_handle, unsigned count) {
    Graph *graph = graph_of(handle);
    UserObject *object = handle_get(HANDLE_USER_OBJECT, object_handle);
    unsigned held = 0;
    CHECK(graph && object && count, CODE_INVALID_VALUE);
    for (int i = 0; i < graph->object_count; i++)
        held += graph->objects[i] == object;
    CHECK(count <= held, CODE_INVALID_VALUE);
    unsigned left = count;
    for (int i = graph->object_count; i-- > 0 && left;) {
        if (graph->objects[i] != object)
            continue;
        graph->objects[i] = graph->objects[--graph->object_count];
        left--;
    }
    release(object, count);
    return CODE_SUCCESS;
}

/* Let a copy of a graph have its objects too, and end the use of all. */
void objects_copy(Graph *copy, const Graph *graph) {
    for (int i = 0; i < graph->object_count; i++) {
        graph->objects[i]->references++;
        add_objects(copy, graph->objects[i], 1);
    }
}

void objects_drop(Graph *graph) {
    for (int i = 0; i < graph->object_count; i++)
        release(graph->objects[i], 1);
    free(graph->objects);
    graph->objects = NULL;
    graph->object_count = 0;
}
