"""What routers chose: the load of the experts of each layer, once a step."""
