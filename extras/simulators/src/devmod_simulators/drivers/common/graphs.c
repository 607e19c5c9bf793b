/* Graphs: nodes and the edges between them.
 *
 * What a node does is an operation that never changes. A copy of a graph shares the operations, so
 * that what is instantiated does not depend on later changes, and new parameters are a new
 * operation. Nodes keep their numbers in copies.
 */
#include "driver.h"

#include <stdlib.h>
#include <string.h>

static uint64_t graphs;

Graph *graph_make(void) {
    Graph *graph = zeroed(sizeof *graph);
    graph->references = 1;
    graph->number = ++graphs;
    return graph;
}

Graph *graph_of(void *handle) {
    return handle_get(HANDLE_GRAPH, handle);
}

Node *node_of(void *handle) {
    return handle_get(HANDLE_GRAPH_NODE, handle);
}

static void drop_node(Node *node) {
    for (int i = 0; i < node->child_count; i++)
        graph_release(node->children[i]);
    handle_drop(HANDLE_GRAPH_NODE, node->handle);
    if (node->op)
        op_free(node->op);
    free(node->children);
    free(node->child_handles);
    free(node->after);
    free(node);
}

/* End one use of a graph. */
void graph_release(Graph *graph) {
    if (--graph->references)
        return;
    while (graph->count)
        drop_node(graph->nodes[--graph->count]);
    objects_drop(graph);
    handle_drop(HANDLE_GRAPH, graph->handle);
    free(graph->conditions);
    free(graph->order);
    free(graph->nodes);
    free(graph);
}

/* Return the index of a node by its number, or -1. */
int graph_index(const Graph *graph, int number) {
    int low = 0, high = graph->count;
    while (low < high) {
        int middle = (low + high) / 2;
        if (graph->nodes[middle]->number < number)
            low = middle + 1;
        else
            high = middle;
    }
    return low < graph->count && graph->nodes[low]->number == number ? low : -1;
}

/* Return the node of a graph that corresponds to a node of the graph it is a copy of, or NULL. */
Node *graph_counterpart(const Graph *graph, const Node *node) {
    int index = graph_index(graph, node->number);
    return node->graph->number == graph->original && index >= 0 ? graph->nodes[index] : NULL;
}

/* Call a function for each node of a graph and of those within it, until it returns a code. */
int graph_visit(const Graph *graph, int (*act)(Node *node, void *data), void *data) {
    for (int i = 0; i < graph->count; i++) {
        Node *node = graph->nodes[i];
        for (int j = 0; j < node->child_count; j++)
            TRY(graph_visit(node->children[j], act, data));
        TRY(act(node, data));
    }
    return CODE_SUCCESS;
}

static int has_kind(Node *node, void *kind) {
    return node->kind == *(NodeKind *)kind;
}

/* Return whether a graph has nodes of a kind, or one within it. */
bool graph_has_kind(const Graph *graph, NodeKind kind) {
    return graph_visit(graph, has_kind, &kind);
}

/* Return whether a graph has nodes that allocate or free memory: they limit what it may do. */
bool graph_has_memory(const Graph *graph) {
    return graph_has_kind(graph, NODE_ALLOCATE) || graph_has_kind(graph, NODE_FREE);
}

/* ---- nodes */

bool node_awaits(const Node *node, int number) {
    for (int i = 0; i < node->after_count; i++)
        if (node->after[i].from == number)
            return true;
    return false;
}

static void add_edge(Node *node, int from, const EdgeData *data) {
    node->after = with_room(node->after, (size_t)node->after_count, sizeof *node->after);
    node->after[node->after_count++] = (Edge){from, data ? *data : (EdgeData){{0}}};
}

static Node *append(Graph *graph, int number, NodeKind kind, Op *op) {
    Node *node = zeroed(sizeof *node);
    *node = (Node){.graph = graph, .number = number, .kind = kind, .op = op};
    graph->nodes = with_room(graph->nodes, (size_t)graph->count, sizeof(Node *));
    graph->nodes[graph->count++] = node;
    graph->next_number = number + 1;
    return node;
}

/* Add a node that waits for nodes of its graph by number. */
Node *graph_append(Graph *graph, NodeKind kind, Op *op, const int *before, int count) {
    Node *node = append(graph, graph->next_number, kind, op);
    node->handle = handle_make(HANDLE_GRAPH_NODE, node, NULL);
    for (int i = 0; i < count; i++)
        add_edge(node, before[i], NULL);
    return node;
}

/* Give a node `count` graphs, which are owned by it. */
void node_adopt(Node *node, Graph **children, int count) {
    node->children = children;
    node->child_count = count;
    node->child_handles = zeroed((size_t)count * sizeof(void *));
    for (int i = 0; i < count; i++) {
        children[i]->holder = node->graph;
        children[i]->is_body = node->kind == NODE_CONDITIONAL;
        node->child_handles[i] = children[i]->handle;
    }
}

/* Check that handles are those of nodes of a graph. */
int graph_check_nodes(const Graph *graph, void *const *nodes, size_t count) {
    CHECK(nodes || !count, CODE_INVALID_VALUE);
    for (size_t i = 0; i < count; i++) {
        const Node *node = node_of(nodes[i]);
        CHECK(node && node->graph == graph, CODE_INVALID_VALUE);
    }
    return CODE_SUCCESS;
}

/* Add a node, which owns `op`. `before` are the handles of nodes that it waits for, `data` may be
 * NULL. If it fails, the operation is freed. */
int graph_add(Graph *graph, void *const *before, const EdgeData *data, size_t count, NodeKind kind,
              Op *op, Node **result) {
    int code = graph_check_nodes(graph, before, count);
    for (size_t i = 0; i < count && !code; i++)
        for (size_t j = 0; j < i; j++)
            if (before[j] == before[i])
                code = CODE_INVALID_VALUE;
    if (code) {
        if (op)
            op_free(op);
        return code;
    }
    *result = graph_append(graph, kind, op, NULL, 0);
    for (size_t i = 0; i < count; i++)
        add_edge(*result, node_of(before[i])->number, data ? &data[i] : NULL);
    return CODE_SUCCESS;
}

/* Replace what a node does; the operation is freed if it fails. */
int node_set(Node *node, NodeKind kind, Op *op) {
    if (!node || node->kind != kind) {
        op_free(op);
        return CODE_INVALID_VALUE;
    }
    op_free(node->op);
    node->op = op;
    return CODE_SUCCESS;
}

int node_destroy(void *handle) {
    Node *node = node_of(handle);
    CHECK(node, CODE_INVALID_VALUE);
    Graph *graph = node->graph;
    CHECK(!graph_has_memory(graph), CODE_NOT_SUPPORTED);
    for (int i = 0; i < graph->count; i++) {
        Node *other = graph->nodes[i];
        int left = 0;
        for (int j = 0; j < other->after_count; j++)
            if (other->after[j].from != node->number)
                other->after[left++] = other->after[j];
        other->after_count = left;
    }
    int index = graph_index(graph, node->number);
    graph->count--;
    memmove(graph->nodes + index, graph->nodes + index + 1,
            (size_t)(graph->count - index) * sizeof(Node *));
    drop_node(node);
    return CODE_SUCCESS;
}

/* ---- edges */

/* Check that each edge is between two nodes of a graph, is named once, and that all exist or none.
 */
static int check_edges(const Graph *graph, void *const *from, void *const *to, size_t count,
                       bool exist) {
    CHECK(graph && ((from && to) || !count), CODE_INVALID_VALUE);
    for (size_t i = 0; i < count; i++) {
        const Node *first = node_of(from[i]), *second = node_of(to[i]);
        CHECK(first && second && first != second, CODE_INVALID_VALUE);
        CHECK(first->graph == graph && second->graph == graph, CODE_INVALID_VALUE);
        CHECK(node_awaits(second, first->number) == exist, CODE_INVALID_VALUE);
        for (size_t j = 0; j < i; j++)
            CHECK(from[j] != from[i] || to[j] != to[i], CODE_INVALID_VALUE);
    }
    return CODE_SUCCESS;
}

/* Add edges or remove them: all, or none if one is invalid. */
int graph_add_edges(void *handle, void *const *from, void *const *to, const EdgeData *data,
                    size_t count) {
    TRY(check_edges(graph_of(handle), from, to, count, false));
    for (size_t i = 0; i < count; i++)
        add_edge(node_of(to[i]), node_of(from[i])->number, data ? &data[i] : NULL);
    return CODE_SUCCESS;
}

int graph_remove_edges(void *handle, void *const *from, void *const *to, size_t count) {
    Graph *graph = graph_of(handle);
    TRY(check_edges(graph, from, to, count, true));
    CHECK(!graph_has_memory(graph), CODE_NOT_SUPPORTED);
    for (size_t i = 0; i < count; i++) {
        Node *node = node_of(to[i]);
        int place = 0;
        while (node->after[place].from != node_of(from[i])->number)
            place++;
        node->after_count--;
        memmove(node->after + place, node->after + place + 1,
                (size_t)(node->after_count - place) * sizeof *node->after);
    }
    return CODE_SUCCESS;
}

/* ---- graphs */

static void add_condition(Graph *graph, Condition condition) {
    size_t count = (size_t)graph->condition_count++;
    graph->conditions = with_room(graph->conditions, count, sizeof condition);
    graph->conditions[count] = condition;
}

static void copy_children(Node *copy, const Node *node, bool with_handles) {
    Graph **children = zeroed((size_t)node->child_count * sizeof(Graph *));
    for (int i = 0; i < node->child_count; i++)
        children[i] = graph_copy(node->children[i], with_handles);
    node_adopt(copy, children, node->child_count);
}

static void copy_node(Graph *graph, const Node *node, bool with_handles) {
    Node *copy = append(graph, node->number, node->kind, node->op);
    if (node->op)
        node->op->references++;
    copy->context = node->context;
    copy->disabled = node->disabled;
    for (int i = 0; i < node->after_count; i++)
        add_edge(copy, node->after[i].from, &node->after[i].data);
    if (node->child_count)
        copy_children(copy, node, with_handles);
    if (with_handles)
        copy->handle = handle_make(HANDLE_GRAPH_NODE, copy, NULL);
}

/* Return a copy of a graph, with handles of its own or, to be instantiated, without any. */
Graph *graph_copy(const Graph *graph, bool with_handles) {
    Graph *copy = graph_make();
    copy->context = graph->context;
    copy->original = graph->handle ? graph->number : graph->original;
    for (int i = 0; i < graph->count; i++)
        copy_node(copy, graph->nodes[i], with_handles);
    for (int i = 0; i < graph->condition_count; i++)
        add_condition(copy, graph->conditions[i]);
    objects_copy(copy, graph);
    if (with_handles)
        copy->handle = handle_make(HANDLE_GRAPH, copy, NULL);
    return copy;
}

int graph_create(void **handle) {
    CHECK(handle, CODE_INVALID_VALUE);
    Graph *graph = graph_make();
    graph->handle = handle_make(HANDLE_GRAPH, graph, NULL);
    *handle = graph->handle;
    return CODE_SUCCESS;
}

int graph_clone(void **clone, void *handle) {
    Graph *graph = graph_of(handle);
    CHECK(clone && graph, CODE_INVALID_VALUE);
    CHECK(!graph_has_memory(graph), CODE_NOT_SUPPORTED);
    *clone = graph_copy(graph, true)->handle;
    return CODE_SUCCESS;
}

int graph_destroy(void *handle) {
    Graph *graph = graph_of(handle);
    CHECK(graph && !graph->holder && !graph->captures, CODE_INVALID_VALUE);
    graph_release(graph);
    return CODE_SUCCESS;
}

int graph_nodes(void *handle, void **nodes, size_t *count) {
    Graph *graph = graph_of(handle);
    CHECK(graph && count, CODE_INVALID_VALUE);
    size_t number = (size_t)graph->count;
    for (size_t i = 0; nodes && i < *count; i++)
        nodes[i] = i < number ? graph->nodes[i]->handle : NULL;
    if (!nodes || *count > number)
        *count = number;
    return CODE_SUCCESS;
}

int graph_node_kind(void *handle, NodeKind *kind) {
    Node *node = node_of(handle);
    CHECK(node && kind, CODE_INVALID_VALUE);
    *kind = node->kind;
    return CODE_SUCCESS;
}

/* ---- conditions */

/* Make a value of the device that one conditional node of a graph may read. */
int graph_add_condition(uint64_t *address, void *handle, Context *context, unsigned initial,
                        bool assigned) {
    Graph *graph = graph_of(handle);
    Block *block;
    CHECK(address && graph, CODE_INVALID_VALUE);
    TRY(arena_allocate(BLOCK_DEVICE, context->device, sizeof initial, device_memory(), context,
                       &block));
    block->internal = true; /* it ends with the context: what is instantiated may outlive the graph
                             */
    *address = block->start;
    add_condition(graph, (Condition){block->start, initial, assigned, false});
    return CODE_SUCCESS;
}

/* Return a value of a graph, or of one that contains it, or NULL. */
Condition *graph_condition(const Graph *graph, uint64_t address) {
    for (; graph; graph = graph->holder)
        for (int i = 0; i < graph->condition_count; i++)
            if (graph->conditions[i].address == address)
                return &graph->conditions[i];
    return NULL;
}
