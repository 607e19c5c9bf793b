/* Memory of graphs: what a node allocates has one address in all launches, and is there from its
 * allocation until something frees it. */
#include "driver.h"

#include <stdlib.h>

static GraphUsage usages[DEVICES];

GraphUsage *graph_usage(int device) {
    return &usages[device];
}

static uint64_t larger(uint64_t a, uint64_t b) {
    return a > b ? a : b;
}

static int run_allocation(Op *op) {
    Block *block = arena_block(((GraphMemory *)op->data)->address, 1);
    if (!block)
        return CODE_ILLEGAL_ADDRESS;
    arena_renew(block);
    if (block->live)
        return 0;
    GraphUsage *usage = graph_usage(block->device);
    block->live = true;
    usage->used += block->size;
    usage->most_used = larger(usage->most_used, usage->used);
    usage->reserved = larger(usage->reserved, usage->used);
    usage->most_reserved = larger(usage->most_reserved, usage->reserved);
    return 0;
}

/* What a launch left allocated stays, as memory of a pool. */
static void drop_allocation(Op *op) {
    uint64_t address = ((GraphMemory *)op->data)->address;
    Block *block = arena_block(address, 1);
    if (!block || !block->of_graph)
        return;
    block->of_graph = false;
    block->pool = pool_default(BLOCK_DEVICE, block->device);
    if (!block->claimed)
        arena_free(address);
}

/* Make the operation of a node that allocates, with `extra` bytes for the vendor: its address is
 * that of each launch. */
int graph_allocation(BlockKind kind, Context *context, int device, size_t size, size_t extra,
                     Op **op) {
    Block *block;
    CHECK(size, CODE_INVALID_VALUE);
    TRY(arena_allocate(kind, device, size, device_memory(), context, &block));
    block->live = false;
    block->of_graph = true;
    *op = op_make("graph allocation", run_allocation, drop_allocation, sizeof(GraphMemory) + extra);
    ((GraphMemory *)(*op)->data)->address = block->start;
    return CODE_SUCCESS;
}

/* End an allocation: that of a graph is there again at the next launch. */
void allocation_end(uint64_t address) {
    Block *block = arena_block(address, 1);
    if (!block)
        return;
    if (!block->of_graph) {
        arena_free(address);
        return;
    }
    if (block->live)
        graph_usage(block->device)->used -= block->size;
    block->live = false;
}

static int run_deallocation(Op *op) {
    uint64_t address = ((GraphMemory *)op->data)->address;
    const Block *block = arena_block(address, 1);
    if (!block || !block->live)
        violation("a graph frees 0x%llx, which is not allocated then", (unsigned long long)address);
    allocation_end(address);
    return 0;
}

/* Return whether a graph has a node that frees an address. */
static bool is_freed(const Graph *graph, uint64_t address) {
    for (int i = 0; i < graph->count; i++) {
        const Node *node = graph->nodes[i];
        if (node->kind == NODE_FREE && ((const GraphMemory *)node->op->data)->address == address)
            return true;
    }
    return false;
}

/* Make the operation of a node that frees what a node allocates. */
int graph_deallocation(const Graph *graph, uint64_t address, Op **op) {
    const Block *block = arena_block(address, 1);
    CHECK(block && block->start == address && block->of_graph, CODE_INVALID_VALUE);
    CHECK(!is_freed(graph, address), CODE_INVALID_VALUE);
    *op = op_make("graph free", run_deallocation, NULL, sizeof(GraphMemory));
    ((GraphMemory *)(*op)->data)->address = address;
    return CODE_SUCCESS;
}

static Block *block_of(const Node *node, NodeKind kind) {
    return node->kind == kind ? arena_block(((const GraphMemory *)node->op->data)->address, 1)
                              : NULL;
}

static int refuse_claimed(Node *node, void *data) {
    const Block *block = block_of(node, NODE_ALLOCATE);
    CHECK(block && block->claimed, CODE_SUCCESS);
    explain("0x%llx of the graph's last launch is still allocated",
            (unsigned long long)block->start);
    return CODE_INVALID_VALUE;
}

/* Note that the nodes of a kind have allocated or freed. */
static int claim(Node *node, void *kind) {
    Block *block = block_of(node, *(NodeKind *)kind);
    if (block)
        block->claimed = node->kind == NODE_ALLOCATE;
    return CODE_SUCCESS;
}

/* Let a launch of a graph allocate and free. It fails if memory of an earlier launch is left,
 * unless `frees`. */
int graph_claim(const Graph *graph, bool frees) {
    if (!frees)
        TRY(graph_visit(graph, refuse_claimed, NULL));
    graph_visit(graph, claim, &(NodeKind){NODE_ALLOCATE});
    graph_visit(graph, claim, &(NodeKind){NODE_FREE});
    return CODE_SUCCESS;
}
