/* Executable graphs: copies of graphs that are launched.
 *
 * A graph runs its nodes in an order that its edges permit, the youngest first, so that a missing
 * edge shows.
 */
#include "driver.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct {
    void *handle;
    Graph *graph;
    void *source; /* the graph that it was instantiated from; it may be gone */
    unsigned long long flags;
    bool is_met; /* a thread is about to launch it */
} Executable;

static Executable *executable_of(void *handle) {
    return handle_get(HANDLE_GRAPH_EXEC, handle);
}

/* ---- the order of nodes */

static bool may_run(const Graph *graph, const bool *done, int index) {
    const Node *node = graph->nodes[index];
    for (int i = 0; i < node->after_count; i++)
        if (!done[graph_index(graph, node->after[i].from)])
            return false;
    return !done[index];
}

/* Set the order of a graph's nodes. Return whether there is one: the edges may be a cycle. */
static bool set_order(Graph *graph) {
    bool *done = zeroed((size_t)graph->count * sizeof *done);
    graph->order = zeroed((size_t)graph->count * sizeof *graph->order);
    int placed = 0;
    for (int index = graph->count - 1; index >= 0;) {
        if (!may_run(graph, done, index)) {
            index--;
            continue;
        }
        done[index] = true;
        graph->order[placed++] = index;
        index = graph->count - 1;
    }
    free(done);
    return placed == graph->count;
}

/* Set the orders of a graph and those within it. */
static bool set_orders(Graph *graph) {
    for (int i = 0; i < graph->count; i++)
        for (int j = 0; j < graph->nodes[i]->child_count; j++)
            if (!set_orders(graph->nodes[i]->children[j]))
                return false;
    return set_order(graph);
}

/* ---- instantiation */

static bool conditions_are_used(const Graph *graph) {
    for (int i = 0; i < graph->condition_count; i++)
        if (!graph->conditions[i].used)
            return false;
    return true;
}

/* Return whether a node is within a body of a conditional one, which may not run it. */
static int is_misplaced(Node *node, void *data) {
    if (node->kind != NODE_HOST && node->kind != NODE_EVENT_WAIT && node->kind != NODE_EVENT_RECORD)
        return false;
    const Graph *graph = node->graph;
    while (graph && !graph->is_body)
        graph = graph->holder;
    if (graph)
        explain("a conditional node may not run functions of the host or events");
    return graph != NULL;
}

/* *cyclic may be NULL. */
int graph_instantiate(void **result, void *handle, unsigned long long flags, bool *cyclic) {
    Graph *graph = graph_of(handle);
    CHECK(result && graph && !graph->holder && !graph->captures, CODE_INVALID_VALUE);
    CHECK(!graph->instances || !graph_has_memory(graph), CODE_NOT_SUPPORTED);
    CHECK(conditions_are_used(graph), CODE_INVALID_VALUE);
    CHECK(!graph_visit(graph, is_misplaced, NULL), CODE_NOT_SUPPORTED);
    Graph *copy = graph_copy(graph, false);
    if (!set_orders(copy)) {
        explain("the graph has a cycle");
        graph_release(copy);
        if (cyclic)
            *cyclic = true;
        return CODE_INVALID_VALUE;
    }
    Executable *executable = zeroed(sizeof *executable);
    *executable =
        (Executable){handle_make(HANDLE_GRAPH_EXEC, executable, NULL), copy, handle, flags, false};
    graph->instances++;
    *result = executable->handle;
    return CODE_SUCCESS;
}

int graph_destroy_executable(void *handle) {
    Executable *executable = executable_of(handle);
    CHECK(executable, CODE_INVALID_VALUE);
    Graph *source = handle_peek(HANDLE_GRAPH, executable->source);
    if (source)
        source->instances--;
    handle_drop(HANDLE_GRAPH_EXEC, handle);
    graph_release(executable->graph);
    free(executable);
    return CODE_SUCCESS;
}

int executable_flags(void *handle, unsigned long long *flags) {
    const Executable *executable = executable_of(handle);
    CHECK(executable && flags, CODE_INVALID_VALUE);
    *flags = executable->flags;
    return CODE_SUCCESS;
}

/* Let an executable graph change: launches that have not run keep what it was. */
static Graph *own_graph(Executable *executable) {
    Graph *graph = executable->graph;
    if (graph->references == 1)
        return graph;
    executable->graph = graph_copy(graph, false);
    set_orders(executable->graph);
    graph_release(graph);
    return executable->graph;
}

typedef struct {
    const Node *original;
    Node *copy;
} Pair;

static int find_copy(Node *node, void *data) {
    Pair *pair = data;
    bool found = graph_counterpart(node->graph, pair->original) == node;
    if (found)
        pair->copy = node;
    return found;
}

/* Return the node of an executable graph for that of its graph, or NULL. */
static Node *executable_node(void *handle, void *node_handle, bool changes) {
    Executable *executable = executable_of(handle);
    Pair pair = {node_of(node_handle), NULL};
    if (executable && pair.original)
        graph_visit(changes ? own_graph(executable) : executable->graph, find_copy, &pair);
    return pair.copy;
}

/* Replace what a node does in an executable graph; the operation is freed if it fails. The node is
 * that of the graph it was instantiated from. */
int executable_set(void *handle, void *node_handle, NodeKind kind, Op *op) {
    Node *node = executable_node(handle, node_handle, true);
    return node_set(node, kind, op);
}

static bool can_be_disabled(const Node *node) {
    return node &&
           (node->kind == NODE_KERNEL || node->kind == NODE_COPY || node->kind == NODE_FILL);
}

int executable_enable(void *handle, void *node_handle, bool enabled) {
    Node *node = executable_node(handle, node_handle, true);
    CHECK(can_be_disabled(node), CODE_INVALID_VALUE);
    node->disabled = !enabled;
    return CODE_SUCCESS;
}

int executable_enabled(void *handle, void *node_handle, bool *enabled) {
    const Node *node = executable_node(handle, node_handle, false);
    CHECK(can_be_disabled(node), CODE_INVALID_VALUE);
    *enabled = !node->disabled;
    return CODE_SUCCESS;
}

/* ---- updates */

static bool same_graphs(const Graph *old, const Graph *new, Change *change);

static void *handle_by_number(const Graph *graph, int number) {
    return graph->nodes[graph_index(graph, number)]->handle;
}

/* Compare two nodes of the same place; note how they differ. */
static bool same_nodes(const Node *old, const Node *new, Change *change) {
    *change = (Change){CHANGE_KIND, new->handle, NULL};
    if (old->kind != new->kind)
        return false;
    change->kind = CHANGE_CONTEXT;
    if (old->context != new->context)
        return false;
    change->kind = CHANGE_TOPOLOGY;
    if (old->after_count != new->after_count || old->child_count != new->child_count)
        return false;
    for (int i = 0; i < old->after_count; i++) {
        if (graph_index(old->graph, old->after[i].from) ==
            graph_index(new->graph, new->after[i].from))
            continue;
        change->from = handle_by_number(new->graph, new->after[i].from);
        return false;
    }
    for (int i = 0; i < old->child_count; i++)
        if (!same_graphs(old->children[i], new->children[i], change))
            return false;
    *change = (Change){CHANGE_NONE, NULL, NULL};
    return true;
}

static bool same_graphs(const Graph *old, const Graph *new, Change *change) {
    *change = (Change){CHANGE_TOPOLOGY, NULL, NULL};
    if (old->count != new->count)
        return false;
    *change = (Change){CHANGE_NONE, NULL, NULL};
    for (int i = 0; i < old->count; i++)
        if (!same_nodes(old->nodes[i], new->nodes[i], change))
            return false;
    return true;
}

/* Give a graph the operations of another one of the same form. */
static void take_operations(Graph *graph, const Graph *new) {
    for (int i = 0; i < graph->count; i++) {
        Node *node = graph->nodes[i];
        Op *op = new->nodes[i]->op;
        if (op)
            op->references++;
        if (node->op)
            op_free(node->op);
        node->op = op;
        for (int j = 0; j < node->child_count; j++)
            take_operations(node->children[j], new->nodes[i]->children[j]);
    }
    size_t size = (size_t)new->condition_count * sizeof *new->conditions;
    free(graph->conditions);
    graph->conditions = zeroed(size);
    if (size)
        memcpy(graph->conditions, new->conditions, size);
    graph->condition_count = new->condition_count;
    objects_drop(graph);
    objects_copy(graph, new);
}

int graph_update(void *handle, void *new, Change *change) {
    Executable *executable = executable_of(handle);
    const Graph *graph = graph_of(new);
    CHECK(executable && graph && !graph->holder, CODE_INVALID_VALUE);
    CHECK(same_graphs(executable->graph, graph, change), CODE_GRAPH_EXEC_UPDATE_FAILURE);
    take_operations(own_graph(executable), graph);
    return CODE_SUCCESS;
}

int executable_set_child(void *handle, void *node_handle, void *new) {
    Change change;
    Node *node = executable_node(handle, node_handle, true);
    const Graph *graph = graph_of(new);
    CHECK(node && graph && node->kind == NODE_GRAPH, CODE_INVALID_VALUE);
    CHECK(same_graphs(node->children[0], graph, &change), CODE_INVALID_VALUE);
    take_operations(node->children[0], graph);
    return CODE_SUCCESS;
}

/* ---- launches */

typedef struct {
    Graph *graph;
    Stream *stream;
} Launched;

static int run_nodes(const Graph *graph, const Op *launch);

static unsigned *condition_value(uint64_t address) {
    return arena_view(address);
}

static int run_conditional(const Node *node, const Op *launch) {
    const Conditional *conditional = (const Conditional *)node->op->data;
    unsigned value = *condition_value(conditional->condition);
    unsigned body = value;
    if (conditional->type == CONDITION_IF)
        body = value == 0;
    if (conditional->type != CONDITION_WHILE)
        return body < conditional->size ? run_nodes(node->children[body], launch) : 0;
    while (*condition_value(conditional->condition)) {
        int code = run_nodes(node->children[0], launch);
        if (code)
            return code;
    }
    return 0;
}

static int run_node(const Node *node, const Op *launch) {
    const Launched *launched = (const Launched *)launch->data;
    if (node->disabled)
        return 0;
    switch (node->kind) {
    case NODE_GRAPH:
        return run_nodes(node->children[0], launch);
    case NODE_CONDITIONAL:
        return run_conditional(node, launch);
    case NODE_EVENT_WAIT:
        if (node->stream)
            stream_run(node->stream, node->stream_number);
        note_running(launched->stream, launch->number);
        return 0;
    default:
        return node->op ? node->op->run(node->op) : 0;
    }
}

static int run_nodes(const Graph *graph, const Op *launch) {
    for (int i = 0; i < graph->count; i++) {
        int code = run_node(graph->nodes[graph->order[i]], launch);
        if (code)
            return code;
    }
    return 0;
}

static void assign_conditions(const Graph *graph) {
    for (int i = 0; i < graph->condition_count; i++)
        if (graph->conditions[i].assigned)
            *condition_value(graph->conditions[i].address) = graph->conditions[i].initial;
    for (int i = 0; i < graph->count; i++)
        for (int j = 0; j < graph->nodes[i]->child_count; j++)
            assign_conditions(graph->nodes[i]->children[j]);
}

static int run_graph(Op *op) {
    const Launched *launched = (const Launched *)op->data;
    assign_conditions(launched->graph);
    return run_nodes(launched->graph, op);
}

static void drop_graph(Op *op) {
    graph_release(((Launched *)op->data)->graph);
}

/* Let a node of a launch that waits for an event wait for what is recorded now. */
static int set_wait(Node *node, void *launch) {
    if (node->kind != NODE_EVENT_WAIT)
        return 0;
    const Event *event = ((const EventUse *)node->op->data)->event;
    node->stream = event->stream;
    node->stream_number = event->number;
    if (event->stream)
        note_order(NOTE_WAITS, event->stream, event->number, launch);
    return 0;
}

/* Let an event that a launch records stand for it. */
static int set_record(Node *node, void *stream) {
    if (node->kind == NODE_EVENT_RECORD)
        event_place(((const EventUse *)node->op->data)->event, stream);
    return 0;
}

/* Record a launch in a graph: its nodes are those of a child graph. */
static int capture_launch(Stream *stream, const Graph *graph) {
    Node *node;
    CHECK(!graph_has_memory(graph), CODE_NOT_SUPPORTED);
    TRY(capture_add_kind(stream, NODE_GRAPH, NULL, &node));
    Graph **child = zeroed(sizeof(Graph *));
    *child = graph_copy(graph, true);
    node_adopt(node, child, 1);
    return CODE_SUCCESS;
}

int graph_upload(void *handle, void *stream) {
    Stream *target;
    CHECK(executable_of(handle), CODE_INVALID_VALUE);
    return stream_of(stream, &target);
}

/* Give other threads the time to launch an executable graph too, which is a violation: CUDA does
 * not serialize such calls. */
void executable_meet(void *handle) {
    Executable *executable = handle_peek(HANDLE_GRAPH_EXEC, handle);
    if (!executable)
        return;
    if (executable->is_met)
        violation("two threads launch one executable graph at once");
    executable->is_met = true;
    pthread_mutex_unlock(&big_lock);
    usleep(100); /* or else two threads would hardly meet here */
    pthread_mutex_lock(&big_lock);
    executable = handle_peek(HANDLE_GRAPH_EXEC, handle);
    if (executable)
        executable->is_met = false;
}

int graph_launch(void *handle, void *stream) {
    Stream *target;
    const Executable *executable = executable_of(handle);
    CHECK(executable, CODE_INVALID_VALUE);
    TRY(stream_of(stream, &target));
    Graph *graph = executable->graph;
    CHECK(!graph->context || target->group == &graph->context->group, CODE_INVALID_HANDLE);
    if (capture_active(target))
        return capture_launch(target, graph);
    TRY(graph_claim(graph, executable->flags & GRAPH_FREES));
    Op *op = op_make("graph", run_graph, drop_graph, sizeof(Launched));
    /* Each launch waits for its own place of the stream. */
    if (graph_has_kind(graph, NODE_EVENT_WAIT)) {
        graph = graph_copy(graph, false);
        set_orders(graph);
        graph_visit(graph, set_wait, op);
    } else {
        graph->references++;
    }
    *(Launched *)op->data = (Launched){graph, target};
    TRY(submit(target, op));
    graph_visit(executable->graph, set_record, target);
    return CODE_SUCCESS;
}
