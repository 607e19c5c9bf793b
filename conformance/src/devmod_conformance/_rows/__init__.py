"""The rows. A process of one task imports none of them."""
