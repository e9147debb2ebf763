"""Models of other frameworks as graphs: each node is the formula of its operator, which a trace records."""
