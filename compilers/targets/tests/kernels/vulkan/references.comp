#version 450
#extension GL_EXT_buffer_reference : require
layout(local_size_x = 1) in;
layout(buffer_reference) buffer Node;
layout(buffer_reference, std430) buffer Node { float value; Node next; };
layout(push_constant) uniform Push { Node head; uint n; };
layout(binding = 0) buffer Y { float y[]; };
void main() { y[0] = head.next.value; }
