"""`.devmod` files as modules: reading, saving and joining them."""
