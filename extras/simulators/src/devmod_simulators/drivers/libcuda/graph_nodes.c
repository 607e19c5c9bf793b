/* Nodes of graphs: their parameters, when they are added, read and replaced. */
#include "cuda_standin.h"

#include <stdlib.h>
#include <string.h>

/* The data of an allocation: the parameters, and the devices that may access it behind them. */
typedef struct {
    GraphMemory memory;
    CUDA_MEM_ALLOC_NODE_PARAMS params;
    CUmemAccessDesc access[];
} Allocation;

/* The data of a copy. One that a stream captured has no parameters. */
typedef struct {
    Copy copy;
    CUDA_MEMCPY3D params;
} GraphCopy;

/* The type of parameters that are missing. */
#define NO_TYPE ((CUgraphNodeType) - 1)

/* ---- operations */

/* Set *context to that of a handle, or to the current one for NULL. */
static CUresult node_context(CUcontext handle, Context **context) {
    *context = current_context();
    return handle ? context_of(handle, context) : CUDA_SUCCESS;
}

static CUresult kernel_op(const CUDA_KERNEL_NODE_PARAMS_v3 *params, Op **op, Context **context) {
    CUfunction function = params->func ? params->func : (CUfunction)params->kern;
    CUlaunchConfig config = {.gridDimX = params->gridDimX,
                             .gridDimY = params->gridDimY,
                             .gridDimZ = params->gridDimZ,
                             .blockDimX = params->blockDimX,
                             .blockDimY = params->blockDimY,
                             .blockDimZ = params->blockDimZ,
                             .sharedMemBytes = params->sharedMemBytes};
    TRY(node_context(params->ctx, context));
    CHECK(stack_push(*context), CUDA_ERROR_INVALID_CONTEXT); /* a library's kernel is there too */
    CUresult code = launch_op(&config, function, params->kernelParams, params->extra, false, op);
    stack_pop(&(Context *){NULL});
    CHECK(!code, code);
    Context *own = ((const Launch *)(*op)->data)->function->module->context;
    if (params->ctx && own != *context) {
        op_free(*op);
        return CUDA_ERROR_INVALID_CONTEXT;
    }
    *context = own;
    return CUDA_SUCCESS;
}

static CUresult memcpy_op(const CUDA_MEMCPY3D *params, Op **op) {
    Copy copy;
    int kinds;
    TRY(read_copy(params, &copy, &kinds));
    TRY(copy_op(&copy, kinds, sizeof(GraphCopy) - sizeof(Copy), op));
    ((GraphCopy *)(*op)->data)->params = *params;
    return CUDA_SUCCESS;
}

static CUresult memset_op(const CUDA_MEMSET_NODE_PARAMS_v2 *params, Op **op) {
    size_t element = params->elementSize;
    CHECK(element == 1 || element == 2 || element == 4, CUDA_ERROR_INVALID_VALUE);
    Fill fill = {.address = params->dst,
                 .pitch = params->pitch,
                 .width = params->width,
                 .height = params->height,
                 .element = element,
                 .value = params->value};
    return fill_op(&fill, op);
}

static CUresult allocation_op(const CUDA_MEM_ALLOC_NODE_PARAMS_v2 *params, Context *context,
                              Op **op) {
    const CUmemPoolProps *props = &params->poolProps;
    size_t access = params->accessDescCount * sizeof(CUmemAccessDesc);
    bool on_device = props->location.type == CU_MEM_LOCATION_TYPE_DEVICE;
    BlockKind kind = on_device ? BLOCK_DEVICE : BLOCK_HOST;
    if ((int)props->allocType == 2) /* CU_MEM_ALLOCATION_TYPE_MANAGED, which CUDA 12 lacks */
        kind = BLOCK_MANAGED;
    int device = on_device ? props->location.id : context->device;
    CHECK(params->accessDescCount <= DEVICES && (params->accessDescs || !access),
          CUDA_ERROR_INVALID_VALUE);
    CHECK(!props->handleTypes && device_valid(device), CUDA_ERROR_INVALID_VALUE);
    size_t extra = sizeof(Allocation) - sizeof(GraphMemory) + access;
    TRY(graph_allocation(kind, context, device, params->bytesize, extra, op));
    Allocation *allocation = (Allocation *)(*op)->data;
    memcpy(&allocation->params, params, sizeof allocation->params);
    allocation->params.dptr = allocation->memory.address;
    if (access)
        memcpy(allocation->access, params->accessDescs, access);
    allocation->params.accessDescs = access ? allocation->access : NULL;
    return CUDA_SUCCESS;
}

static CUresult event_node_op(NodeKind kind, CUevent handle, Op **op) {
    Event *event;
    TRY(event_of(handle, &event));
    *op = event_op(kind, event);
    return CUDA_SUCCESS;
}

static CUresult conditional_op(const CUDA_CONDITIONAL_NODE_PARAMS *params, const Graph *graph,
                               Op **op) {
    const Condition *condition = graph_condition(graph, params->handle);
    unsigned most[] = {[CU_GRAPH_COND_TYPE_IF] = 2,
                       [CU_GRAPH_COND_TYPE_WHILE] = 1,
                       [CU_GRAPH_COND_TYPE_SWITCH] = UINT16_MAX};
    CHECK(condition && !condition->used, CUDA_ERROR_INVALID_VALUE);
    CHECK((unsigned)params->type <= CU_GRAPH_COND_TYPE_SWITCH, CUDA_ERROR_INVALID_VALUE);
    CHECK(params->size && params->size <= most[params->type], CUDA_ERROR_INVALID_VALUE);
    *op = op_make("conditional", NULL, NULL, sizeof(Conditional));
    *(Conditional *)(*op)->data = (Conditional){params->handle, (int)params->type, params->size};
    return CUDA_SUCCESS;
}

/* Check the graph of a child graph node. */
static CUresult check_child(const CUDA_CHILD_GRAPH_NODE_PARAMS *params, const Graph *graph) {
    const Graph *child = graph_of(params->graph);
    CHECK(child && child != graph, CUDA_ERROR_INVALID_VALUE);
    CHECK(!graph_has_kind(child, NODE_CONDITIONAL), CUDA_ERROR_NOT_SUPPORTED);
    if (params->ownership == CU_GRAPH_CHILD_GRAPH_OWNERSHIP_MOVE) {
        CHECK(!child->holder && !child->captures, CUDA_ERROR_INVALID_VALUE);
        return CUDA_SUCCESS;
    }
    CHECK(params->ownership == CU_GRAPH_CHILD_GRAPH_OWNERSHIP_CLONE, CUDA_ERROR_INVALID_VALUE);
    CHECK(!graph_has_memory(child), CUDA_ERROR_NOT_SUPPORTED);
    return CUDA_SUCCESS;
}

/* Make the operation of a node of a graph from its parameters: *op is NULL for kinds without. */
static CUresult make_op(const CUgraphNodeParams *params, const Graph *graph, Op **op,
                        Context **context) {
    *op = NULL;
    *context = NULL;
    switch (params->type) {
    case CU_GRAPH_NODE_TYPE_KERNEL:
        return kernel_op(&params->kernel, op, context);
    case CU_GRAPH_NODE_TYPE_MEMCPY:
        TRY(node_context(params->memcpy.copyCtx, context));
        return memcpy_op(&params->memcpy.copyParams, op);
    case CU_GRAPH_NODE_TYPE_MEMSET:
        TRY(node_context(params->memset.ctx, context));
        return memset_op(&params->memset, op);
    case CU_GRAPH_NODE_TYPE_HOST:
        CHECK(params->host.fn, CUDA_ERROR_INVALID_VALUE);
        *op = host_call_op(params->host.fn, params->host.userData);
        return CUDA_SUCCESS;
    case CU_GRAPH_NODE_TYPE_GRAPH:
        return check_child(&params->graph, graph);
    case CU_GRAPH_NODE_TYPE_EMPTY:
        return CUDA_SUCCESS;
    case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
        return event_node_op(NODE_EVENT_WAIT, params->eventWait.event, op);
    case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
        return event_node_op(NODE_EVENT_RECORD, params->eventRecord.event, op);
    case CU_GRAPH_NODE_TYPE_MEM_ALLOC:
        TRY(node_context(NULL, context));
        return allocation_op(&params->alloc, *context, op);
    case CU_GRAPH_NODE_TYPE_MEM_FREE:
        return graph_deallocation(graph, params->free.dptr, op);
    case CU_GRAPH_NODE_TYPE_CONDITIONAL:
        TRY(node_context(params->conditional.ctx, context));
        return conditional_op(&params->conditional, graph, op);
    default:
        explain("the simulated driver has no nodes of type %d", (int)params->type);
        return CUDA_ERROR_NOT_SUPPORTED;
    }
}

/* ---- adding */

static void add_children(Node *node, const CUgraphNodeParams *params) {
    bool conditional = params->type == CU_GRAPH_NODE_TYPE_CONDITIONAL;
    int count = conditional ? (int)params->conditional.size : 1;
    Graph **children = zeroed((size_t)count * sizeof(Graph *));
    for (int i = 0; conditional && i < count; i++) {
        children[i] = graph_make();
        children[i]->handle = handle_make(HANDLE_GRAPH, children[i], NULL);
    }
    if (!conditional) {
        children[0] = graph_of(params->graph.graph);
        if (params->graph.ownership == CU_GRAPH_CHILD_GRAPH_OWNERSHIP_CLONE)
            children[0] = graph_copy(children[0], true);
    }
    node_adopt(node, children, count);
}

static CUresult add(CUgraphNode *result, CUgraph handle, const CUgraphNode *before,
                    const CUgraphEdgeData *data, size_t count, CUgraphNodeParams *params) {
    Graph *graph = graph_of(handle);
    Context *context;
    Node *node;
    Op *op;
    CHECK(result && graph && params && params->type != NO_TYPE, CUDA_ERROR_INVALID_VALUE);
    CHECK(!graph->holder || (params->type != CU_GRAPH_NODE_TYPE_MEM_ALLOC &&
                             params->type != CU_GRAPH_NODE_TYPE_MEM_FREE),
          CUDA_ERROR_NOT_SUPPORTED);
    TRY(make_op(params, graph, &op, &context));
    TRY(graph_add(graph, (void *const *)before, (const EdgeData *)data, count,
                  (NodeKind)params->type, op, &node));
    node->context = context;
    if (!graph->context)
        graph->context = context;
    *result = node->handle;
    switch (params->type) {
    case CU_GRAPH_NODE_TYPE_CONDITIONAL:
        graph_condition(graph, params->conditional.handle)->used = true;
        add_children(node, params);
        params->conditional.phGraph_out = (CUgraph *)node->child_handles;
        return CUDA_SUCCESS;
    case CU_GRAPH_NODE_TYPE_GRAPH:
        add_children(node, params);
        return CUDA_SUCCESS;
    case CU_GRAPH_NODE_TYPE_MEM_ALLOC:
        params->alloc.dptr = ((const GraphMemory *)op->data)->address;
        return CUDA_SUCCESS;
    default:
        return CUDA_SUCCESS;
    }
}

/* ---- reading */

static void describe_kernel(const Launch *launch, CUDA_KERNEL_NODE_PARAMS_v3 *params) {
    bool of_library = handle_peek(HANDLE_KERNEL, launch->asked);
    *params = (CUDA_KERNEL_NODE_PARAMS_v3){.func = launch->handle,
                                           .gridDimX = launch->grid[0],
                                           .gridDimY = launch->grid[1],
                                           .gridDimZ = launch->grid[2],
                                           .blockDimX = launch->block[0],
                                           .blockDimY = launch->block[1],
                                           .blockDimZ = launch->block[2],
                                           .sharedMemBytes = launch->shared,
                                           .kernelParams = launch->param_list,
                                           .ctx = launch->function->module->context->handle};
    if (of_library)
        params->kern = (CUkernel)launch->asked;
}

static void describe_copy(const Op *op, CUDA_MEMCPY3D *params) {
    const Copy *copy = (const Copy *)op->data;
    if (op->size == sizeof(GraphCopy)) {
        *params = ((const GraphCopy *)op->data)->params;
        return;
    }
    *params = (CUDA_MEMCPY3D){.srcMemoryType = CU_MEMORYTYPE_UNIFIED,
                              .srcDevice = copy->from.address,
                              .srcPitch = copy->from.pitch,
                              .srcHeight = copy->from.slice / copy->from.pitch,
                              .dstMemoryType = CU_MEMORYTYPE_UNIFIED,
                              .dstDevice = copy->to.address,
                              .dstPitch = copy->to.pitch,
                              .dstHeight = copy->to.slice / copy->to.pitch,
                              .WidthInBytes = copy->width,
                              .Height = copy->height,
                              .Depth = copy->depth};
}

static void describe_allocation(const Op *op, CUDA_MEM_ALLOC_NODE_PARAMS_v2 *params) {
    uint64_t address = ((const GraphMemory *)op->data)->address;
    const Block *block = arena_block(address, 1);
    if (op->size > sizeof(GraphMemory)) {
        memcpy(params, &((const Allocation *)op->data)->params, sizeof *params);
        return;
    }
    params->poolProps.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    params->poolProps.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    params->poolProps.location.id = block ? block->device : 0;
    params->bytesize = block ? block->size : 0;
    params->dptr = address;
}

static void describe_conditional(const Node *node, CUDA_CONDITIONAL_NODE_PARAMS *params) {
    const Conditional *conditional = (const Conditional *)node->op->data;
    params->handle = conditional->condition;
    params->type = (CUgraphConditionalNodeType)conditional->type;
    params->size = conditional->size;
    params->phGraph_out = (CUgraph *)node->child_handles;
    params->ctx = node->context->handle;
}

/* Return the parameters of a node. They may point into it. */
CUresult describe_node(CUgraphNode handle, CUgraphNodeParams *params) {
    const Node *node = node_of(handle);
    CHECK(node && params, CUDA_ERROR_INVALID_VALUE);
    memset(params, 0, sizeof *params);
    params->type = (CUgraphNodeType)node->kind;
    const void *data = node->op ? node->op->data : NULL;
    const Fill *fill = data;
    const HostCall *call = data;
    switch (node->kind) {
    case NODE_KERNEL:
        describe_kernel(data, &params->kernel);
        break;
    case NODE_COPY:
        params->memcpy.copyCtx = node->context->handle;
        describe_copy(node->op, &params->memcpy.copyParams);
        break;
    case NODE_FILL:
        params->memset = (CUDA_MEMSET_NODE_PARAMS_v2){.dst = fill->address,
                                                      .pitch = fill->pitch,
                                                      .value = fill->value,
                                                      .elementSize = (unsigned)fill->element,
                                                      .width = fill->width,
                                                      .height = fill->height,
                                                      .ctx = node->context->handle};
        break;
    case NODE_HOST:
        params->host.fn = call->function;
        params->host.userData = call->data;
        break;
    case NODE_GRAPH:
        params->graph.graph = node->child_handles[0];
#if CUDA_VERSION >= 13010 /* headers of CUDA 13.0 lack it */
        params->graph.ownership = CU_GRAPH_CHILD_GRAPH_OWNERSHIP_INVALID;
#endif
        break;
    case NODE_EVENT_WAIT:
    case NODE_EVENT_RECORD: /* both have the event first */
        params->eventRecord.event = ((const EventUse *)data)->event->handle;
        break;
    case NODE_ALLOCATE:
        describe_allocation(node->op, &params->alloc);
        break;
    case NODE_FREE:
        params->free.dptr = ((const GraphMemory *)data)->address;
        break;
    case NODE_CONDITIONAL:
        describe_conditional(node, &params->conditional);
        break;
    case NODE_EMPTY:
        break;
    }
    return CUDA_SUCCESS;
}

/* ---- replacing */

/* Return whether a node's parameters may be replaced. */
static bool may_change(CUgraphNodeType type) {
    return type != CU_GRAPH_NODE_TYPE_MEM_ALLOC && type != CU_GRAPH_NODE_TYPE_MEM_FREE &&
           type != CU_GRAPH_NODE_TYPE_CONDITIONAL && type != CU_GRAPH_NODE_TYPE_GRAPH;
}

/* Make the operation of new parameters of a node. */
static CUresult new_op(CUgraphNode handle, const CUgraphNodeParams *params, Op **op) {
    Context *context;
    const Node *node = node_of(handle);
    CHECK(node && params, CUDA_ERROR_INVALID_VALUE);
    CHECK(params->type == (CUgraphNodeType)node->kind, CUDA_ERROR_INVALID_VALUE);
    CHECK(may_change(params->type), CUDA_ERROR_NOT_SUPPORTED);
    TRY(make_op(params, node->graph, op, &context));
    if (params->type != CU_GRAPH_NODE_TYPE_KERNEL)
        return CUDA_SUCCESS;
    CUresult code = CUDA_ERROR_INVALID_VALUE;
    if (context == node->context) /* new parameters leave the attributes as they are */
        code = launch_take_attributes((Launch *)(*op)->data, (const Launch *)node->op->data);
    if (code)
        op_free(*op);
    return code;
}

static CUresult set(CUgraphNode handle, const CUgraphNodeParams *params) {
    Op *op;
    TRY(new_op(handle, params, &op));
    return op ? node_set(node_of(handle), (NodeKind)params->type, op) : CUDA_SUCCESS;
}

static CUresult set_executable(CUgraphExec executable, CUgraphNode handle,
                               const CUgraphNodeParams *params) {
    Op *op;
    CHECK(params, CUDA_ERROR_INVALID_VALUE);
    if (params->type == CU_GRAPH_NODE_TYPE_GRAPH)
        return executable_set_child(executable, handle, params->graph.graph);
    TRY(new_op(handle, params, &op));
    return op ? executable_set(executable, handle, (NodeKind)params->type, op) : CUDA_SUCCESS;
}

/* ---- the functions */

/* The parameters of one kind of node are the first bytes of those of all, but for a copy's. */
static void *own_params(CUgraphNodeParams *params) {
    if (params->type == CU_GRAPH_NODE_TYPE_MEMCPY)
        return &params->memcpy.copyParams;
    return &params->kernel;
}

static CUgraphNodeParams params_of(CUgraphNodeType type, const void *source, size_t size,
                                   CUcontext context) {
    CUgraphNodeParams params = {.type = source ? type : NO_TYPE};
    if (source)
        memcpy(own_params(&params), source, size);
    if (type == CU_GRAPH_NODE_TYPE_MEMCPY)
        params.memcpy.copyCtx = context;
    if (type == CU_GRAPH_NODE_TYPE_MEMSET)
        params.memset.ctx = context;
    return params;
}

static CUresult read_as(CUgraphNode handle, CUgraphNodeType type, void *result, size_t size) {
    CUgraphNodeParams params;
    CHECK(result, CUDA_ERROR_INVALID_VALUE);
    TRY(describe_node(handle, &params));
    CHECK(params.type == type, CUDA_ERROR_INVALID_VALUE);
    memcpy(result, own_params(&params), size);
    return CUDA_SUCCESS;
}

#define GIVEN(kind, source, context)                                                               \
    ((CUgraphNodeParams[]){params_of(CU_GRAPH_NODE_TYPE_##kind, source, sizeof *(source), context)})
#define ONE(kind, ...) ((CUgraphNodeParams[]){{.type = CU_GRAPH_NODE_TYPE_##kind, __VA_ARGS__}})
#define READ(kind, result) read_as(hNode, CU_GRAPH_NODE_TYPE_##kind, result, sizeof *(result))
#define ADD(params) add(phGraphNode, hGraph, dependencies, NULL, numDependencies, params)
#define ADD_WITH_DATA                                                                              \
    add(phGraphNode, hGraph, dependencies, dependencyData, numDependencies, nodeParams)
#define SET(params) set(hNode, params)
#define SET_EXECUTABLE(params) set_executable(hGraphExec, hNode, params)

FORWARD(cuGraphAddNode, CURRENT, ADD_WITH_DATA)
FORWARD(cuGraphNodeSetParams, CURRENT, SET(nodeParams))
FORWARD(cuGraphExecNodeSetParams, CURRENT, SET_EXECUTABLE(nodeParams))
#if CUDA_VERSION >= 13020 /* headers of CUDA 13.0 lack it */
FORWARD(cuGraphNodeGetParams, READY, describe_node(hNode, nodeParams))
#endif
#if CUDA_VERSION >= 13040
FORWARD(cuGraphAddNode_v3, CURRENT, ADD_WITH_DATA)
FORWARD(cuGraphNodeSetParams_v2, CURRENT, SET(nodeParams))
#endif

FORWARD(cuGraphAddKernelNode, CURRENT, ADD(GIVEN(KERNEL, nodeParams, NULL)))
FORWARD(cuGraphKernelNodeGetParams, READY, READ(KERNEL, nodeParams))
FORWARD(cuGraphKernelNodeSetParams, CURRENT, SET(GIVEN(KERNEL, nodeParams, NULL)))
FORWARD(cuGraphExecKernelNodeSetParams, CURRENT, SET_EXECUTABLE(GIVEN(KERNEL, nodeParams, NULL)))
FORWARD(cuGraphAddHostNode, CURRENT, ADD(GIVEN(HOST, nodeParams, NULL)))
FORWARD(cuGraphHostNodeGetParams, READY, READ(HOST, nodeParams))
FORWARD(cuGraphHostNodeSetParams, CURRENT, SET(GIVEN(HOST, nodeParams, NULL)))
FORWARD(cuGraphExecHostNodeSetParams, CURRENT, SET_EXECUTABLE(GIVEN(HOST, nodeParams, NULL)))
FORWARD(cuGraphAddMemcpyNode, CURRENT, ADD(GIVEN(MEMCPY, copyParams, ctx)))
FORWARD(cuGraphMemcpyNodeGetParams, READY, READ(MEMCPY, nodeParams))
FORWARD(cuGraphMemcpyNodeSetParams, CURRENT, SET(GIVEN(MEMCPY, nodeParams, NULL)))
FORWARD(cuGraphExecMemcpyNodeSetParams, CURRENT, SET_EXECUTABLE(GIVEN(MEMCPY, copyParams, ctx)))
FORWARD(cuGraphAddMemsetNode, CURRENT, ADD(GIVEN(MEMSET, memsetParams, ctx)))
FORWARD(cuGraphMemsetNodeGetParams, READY, READ(MEMSET, nodeParams))
FORWARD(cuGraphMemsetNodeSetParams, CURRENT, SET(GIVEN(MEMSET, nodeParams, NULL)))
FORWARD(cuGraphExecMemsetNodeSetParams, CURRENT, SET_EXECUTABLE(GIVEN(MEMSET, memsetParams, ctx)))
FORWARD(cuGraphAddEventRecordNode, READY, ADD(GIVEN(EVENT_RECORD, &event, NULL)))
FORWARD(cuGraphEventRecordNodeGetEvent, READY, READ(EVENT_RECORD, event_out))
FORWARD(cuGraphEventRecordNodeSetEvent, READY, SET(GIVEN(EVENT_RECORD, &event, NULL)))
FORWARD(cuGraphExecEventRecordNodeSetEvent, READY,
        SET_EXECUTABLE(GIVEN(EVENT_RECORD, &event, NULL)))
FORWARD(cuGraphAddEventWaitNode, READY, ADD(GIVEN(WAIT_EVENT, &event, NULL)))
FORWARD(cuGraphEventWaitNodeGetEvent, READY, READ(WAIT_EVENT, event_out))
FORWARD(cuGraphEventWaitNodeSetEvent, READY, SET(GIVEN(WAIT_EVENT, &event, NULL)))
FORWARD(cuGraphExecEventWaitNodeSetEvent, READY, SET_EXECUTABLE(GIVEN(WAIT_EVENT, &event, NULL)))
FORWARD(cuGraphAddEmptyNode, READY, ADD(ONE(EMPTY)))
FORWARD(cuGraphAddChildGraphNode, READY, ADD(ONE(GRAPH, .graph.graph = childGraph)))
FORWARD(cuGraphChildGraphNodeGetGraph, READY, READ(GRAPH, phGraph))
FORWARD(cuGraphExecChildGraphNodeSetParams, READY,
        executable_set_child(hGraphExec, hNode, childGraph))
FORWARD(cuGraphMemAllocNodeGetParams, READY, READ(MEM_ALLOC, params_out))
FORWARD(cuGraphAddMemFreeNode, READY, ADD(ONE(MEM_FREE, .free.dptr = dptr)))
FORWARD(cuGraphMemFreeNodeGetParams, READY, READ(MEM_FREE, dptr_out))

API(cuGraphAddMemAllocNode, CURRENT) {
    CUgraphNodeParams *params = GIVEN(MEM_ALLOC, nodeParams, NULL);
    TRY(ADD(params));
    nodeParams->dptr = params->alloc.dptr;
    return CUDA_SUCCESS;
}

/* ---- attributes of kernels */

/* Return the launch of a kernel node, or NULL. */
static const Launch *launch_of(CUgraphNode handle) {
    const Node *node = node_of(handle);
    return node && node->kind == NODE_KERNEL ? (const Launch *)node->op->data : NULL;
}

static CUlaunchAttributeValue attribute_of(const Launch *launch, CUlaunchAttributeID id) {
    CUlaunchAttributeValue value = {{0}};
    switch (id) {
    case CU_LAUNCH_ATTRIBUTE_COOPERATIVE:
        value.cooperative = launch->cooperative;
        break;
    case CU_LAUNCH_ATTRIBUTE_PRIORITY:
        value.priority = launch->priority;
        break;
    case CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION:
        memcpy(&value.clusterDim, launch->cluster, sizeof launch->cluster);
        break;
    case CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION:
        value.programmaticStreamSerializationAllowed = launch->programmatic;
        break;
    default:
        break;
    }
    return value;
}

API(cuGraphKernelNodeGetAttribute, READY) {
    const Launch *launch = launch_of(hNode);
    CHECK(launch && value_out, CUDA_ERROR_INVALID_VALUE);
    *value_out = attribute_of(launch, attr);
    return CUDA_SUCCESS;
}

API(cuGraphKernelNodeSetAttribute, READY) {
    Op *op;
    CHECK(launch_of(hNode) && value, CUDA_ERROR_INVALID_VALUE);
    CUlaunchAttribute attribute = {.id = attr, .value = *value};
    TRY(launch_copy(launch_of(hNode), NULL, &attribute, &op));
    return node_set(node_of(hNode), NODE_KERNEL, op);
}

API(cuGraphKernelNodeCopyAttributes, READY) {
    Op *op;
    CHECK(launch_of(src) && launch_of(dst), CUDA_ERROR_INVALID_VALUE);
    TRY(launch_copy(launch_of(dst), launch_of(src), NULL, &op));
    return node_set(node_of(dst), NODE_KERNEL, op);
}
