float bias() { return wrong; }
