/* Graphs: what a capture gave, instantiated and launched.
 *
 * A graph runs its nodes in an order that its dependencies permit, the youngest first, so that a
 * missing dependency shows.
 */
#include "driver.h"

#include <stdlib.h>
#include <string.h>

typedef struct {
    void *handle;
    Body *body;
} Executable;

int graph_destroy(void *handle) {
    Graph *graph = handle_get(HANDLE_GRAPH, handle);
    CHECK(graph, CODE_INVALID_VALUE);
    handle_drop(HANDLE_GRAPH, handle);
    body_release(graph->body);
    free(graph);
    return CODE_SUCCESS;
}

int graph_nodes(void *handle, void **nodes, size_t *count) {
    Graph *graph = handle_get(HANDLE_GRAPH, handle);
    CHECK(graph && count, CODE_INVALID_VALUE);
    size_t number = (size_t)graph->body->count;
    for (size_t i = 0; nodes && i < *count; i++)
        nodes[i] = i < number ? graph->body->nodes[i].handle : NULL;
    if (!nodes || *count > number)
        *count = number;
    return CODE_SUCCESS;
}

int graph_node_kind(void *node, NodeKind *kind) {
    Op *op = handle_get(HANDLE_GRAPH_NODE, node);
    CHECK(op && kind, CODE_INVALID_VALUE);
    *kind = strcmp(op->what, "copy") == 0            ? NODE_COPY
            : strcmp(op->what, "fill") == 0          ? NODE_FILL
            : strcmp(op->what, "host function") == 0 ? NODE_HOST
                                                     : NODE_KERNEL;
    return CODE_SUCCESS;
}

int graph_instantiate(void **result, void *handle) {
    Graph *graph = handle_get(HANDLE_GRAPH, handle);
    CHECK(result && graph, CODE_INVALID_VALUE);
    Executable *executable = calloc(1, sizeof *executable);
    CHECK(executable, CODE_OUT_OF_MEMORY);
    executable->body = graph->body;
    executable->body->references++;
    executable->handle = handle_make(HANDLE_GRAPH_EXEC, executable, NULL);
    *result = executable->handle;
    return CODE_SUCCESS;
}

int graph_update(void *handle, void *new, bool *changed) {
    Executable *executable = handle_get(HANDLE_GRAPH_EXEC, handle);
    Graph *graph = handle_get(HANDLE_GRAPH, new);
    CHECK(executable && graph, CODE_INVALID_VALUE);
    *changed = graph->body->count != executable->body->count;
    CHECK(!*changed, CODE_GRAPH_EXEC_UPDATE_FAILURE);
    body_release(executable->body);
    executable->body = graph->body;
    executable->body->references++;
    return CODE_SUCCESS;
}

int graph_destroy_executable(void *handle) {
    Executable *executable = handle_get(HANDLE_GRAPH_EXEC, handle);
    CHECK(executable, CODE_INVALID_VALUE);
    handle_drop(HANDLE_GRAPH_EXEC, handle);
    body_release(executable->body);
    free(executable);
    return CODE_SUCCESS;
}

static bool may_run(const Body *body, const bool *done, int index) {
    for (int i = 0; i < body->nodes[index].after_count; i++)
        if (!done[body->nodes[index].after[i]])
            return false;
    return !done[index];
}

static int run_graph(Op *op) {
    Body *body = *(Body **)op->data;
    bool *done = calloc((size_t)body->count + 1, sizeof *done);
    int code = 0;
    if (!done)
        abort();
    for (int left = body->count; left && !code; left--) {
        int index = body->count - 1;
        while (!may_run(body, done, index))
            index--;
        code = body->nodes[index].op->run(body->nodes[index].op);
        done[index] = true;
    }
    free(done);
    return code;
}

static void drop_graph(Op *op) {
    body_release(*(Body **)op->data);
}

int graph_upload(void *handle, void *stream) {
    Stream *target;
    CHECK(handle_get(HANDLE_GRAPH_EXEC, handle), CODE_INVALID_VALUE);
    return stream_of(stream, &target);
}

int graph_launch(void *handle, void *stream) {
    Stream *target;
    Executable *executable = handle_get(HANDLE_GRAPH_EXEC, handle);
    CHECK(executable, CODE_INVALID_VALUE);
    TRY(stream_of(stream, &target));
    CHECK(target->group == &executable->body->context->group, CODE_INVALID_HANDLE);
    Op *op = op_make("graph", run_graph, drop_graph, sizeof(Body *));
    *(Body **)op->data = executable->body;
    executable->body->references++;
    return submit(target, op);
}
