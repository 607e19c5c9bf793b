/* Edges of graphs, and a graph as text for people. */
#include "cuda_standin.h"

#include <stdio.h>
#include <string.h>

/* Arrays of the program that take edges; each may be NULL. */
typedef struct {
    CUgraphNode *from, *to;
    CUgraphEdgeData *data;
    size_t room, count;
    bool lossy; /* an edge has data that nothing takes */
} EdgeList;

static void list_edge(EdgeList *list, const Node *from, const Node *to, const Edge *edge) {
    static const EdgeData none;
    size_t place = list->count++;
    if (!list->data && edge && memcmp(&edge->data, &none, sizeof none) != 0)
        list->lossy = true;
    if (place >= list->room)
        return;
    if (list->from)
        list->from[place] = from->handle;
    if (list->to)
        list->to[place] = to->handle;
    if (list->data && edge)
        memcpy(&list->data[place], &edge->data, sizeof edge->data);
}

/* Clear the rest of the arrays, and set *count. */
static CUresult end_list(EdgeList *list, size_t *count) {
    bool taken = list->from || list->to;
    for (size_t i = list->count; taken && i < list->room; i++) {
        if (list->from)
            list->from[i] = NULL;
        if (list->to)
            list->to[i] = NULL;
    }
    if (!taken || list->count < *count)
        *count = list->count;
    return list->lossy && taken ? CUDA_ERROR_LOSSY_QUERY : CUDA_SUCCESS;
}

/* List the edges of a graph: all, or those to a node, or from one. */
static CUresult list_edges(const Graph *graph, const Node *to, const Node *from, EdgeList list,
                           size_t *count) {
    CHECK(graph && count, CUDA_ERROR_INVALID_VALUE);
    list.room = list.from || list.to ? *count : 0;
    for (int i = 0; i < graph->count; i++) {
        const Node *node = graph->nodes[i];
        for (int j = 0; j < node->after_count && (!to || to == node); j++) {
            const Node *earlier = graph->nodes[graph_index(graph, node->after[j].from)];
            if (!from || from == earlier)
                list_edge(&list, earlier, node, &node->after[j]);
        }
    }
    return end_list(&list, count);
}

FORWARD_IF(!from == !to, cuGraphGetEdges, READY,
           list_edges(graph_of(hGraph), NULL, NULL,
                      (EdgeList){.from = from, .to = to, .data = edgeData}, numEdges))

API(cuGraphNodeGetDependencies, READY) {
    const Node *node = node_of(hNode);
    CHECK(node, CUDA_ERROR_INVALID_VALUE);
    return list_edges(node->graph, node, NULL, (EdgeList){.from = dependencies, .data = edgeData},
                      numDependencies);
}

API(cuGraphNodeGetDependentNodes, READY) {
    const Node *node = node_of(hNode);
    CHECK(node, CUDA_ERROR_INVALID_VALUE);
    return list_edges(node->graph, NULL, node, (EdgeList){.to = dependentNodes, .data = edgeData},
                      numDependentNodes);
}

API(cuGraphGetRootNodes, READY) {
    const Graph *graph = graph_of(hGraph);
    CHECK(graph && numRootNodes, CUDA_ERROR_INVALID_VALUE);
    EdgeList list = {.from = rootNodes, .room = rootNodes ? *numRootNodes : 0};
    for (int i = 0; i < graph->count; i++)
        if (!graph->nodes[i]->after_count)
            list_edge(&list, graph->nodes[i], NULL, NULL);
    return end_list(&list, numRootNodes);
}

FORWARD(cuGraphAddDependencies, READY,
        graph_add_edges(hGraph, (void *const *)from, (void *const *)to, (const EdgeData *)edgeData,
                        numDependencies))

/* Two nodes have one edge at most, so its data is not needed. */
FORWARD(cuGraphRemoveDependencies, READY,
        graph_remove_edges(hGraph, (void *const *)from, (void *const *)to, numDependencies))

/* ---- a graph as text */

static void print_graph(FILE *file, const Graph *graph) {
    static const char *const kinds[] = {
        [NODE_COPY] = "MEMCPY",
        [NODE_FILL] = "MEMSET",
        [NODE_HOST] = "HOST",
        [NODE_GRAPH] = "GRAPH",
        [NODE_EMPTY] = "EMPTY",
        [NODE_EVENT_WAIT] = "EVENT_WAIT",
        [NODE_EVENT_RECORD] = "EVENT_RECORD",
        [NODE_ALLOCATE] = "MEM_ALLOC",
        [NODE_FREE] = "MEM_FREE",
        [NODE_CONDITIONAL] = "CONDITIONAL",
    };
    unsigned long long number = graph->number;
    fprintf(file, "subgraph cluster_%llu {\nlabel=\"graph_%llu\" graph[style=\"dashed\"];\n",
            number, number);
    for (int i = 0; i < graph->count; i++) {
        const Node *node = graph->nodes[i];
        const char *label = kinds[node->kind];
        if (node->kind == NODE_KERNEL)
            label = ((const Launch *)node->op->data)->function->kernel->name;
        fprintf(file, "\"graph_%llu_node_%d\"[shape=\"rectangle\" label=\"%d\\n%s\"];\n", number,
                node->number, node->number, label);
        for (int j = 0; j < node->after_count; j++)
            fprintf(file, "\"graph_%llu_node_%d\" -> \"graph_%llu_node_%d\";\n", number,
                    node->after[j].from, number, node->number);
        for (int j = 0; j < node->child_count; j++)
            print_graph(file, node->children[j]);
    }
    fprintf(file, "}\n");
}

API(cuGraphDebugDotPrint, READY) {
    const Graph *graph = graph_of(hGraph); /* flags ask for more, which people read alone */
    CHECK(graph && path, CUDA_ERROR_INVALID_VALUE);
    FILE *file = fopen(path, "w");
    CHECK(file, CUDA_ERROR_OPERATING_SYSTEM);
    fprintf(file, "digraph dot {\n");
    print_graph(file, graph);
    fprintf(file, "}\n");
    fclose(file);
    return CUDA_SUCCESS;
}
