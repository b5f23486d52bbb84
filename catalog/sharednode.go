package catalog

// Node is a node of a cluster as a different node sees it. The module cluster makes it (Node.Nodes), and the console shows it
// (console.Options.Nodes).
type Node struct {
	// Name of the node, and the Instance that it accepts rows for. Instance is empty if that is not known.
	Name, Instance string
	// Epoch counts the owners of the instance. 0 means not known.
	Epoch uint64
	// Ready means that the node accepts events, and no other node would be missed. Missing names, for people, the missing parts. It may quote errors.
	Ready   bool
	Missing string
	// Warning names, for people, a resource that the node is about to exhaust, or the server that makes its log slow.
	Warning string
	// Adopting are the instances whose rows the node moves to their tables, Adopted those whose rows it has moved since its start.
	Adopting, Adopted []string
	// Damaged are the instances that the node had last and that no node adopts until an operator decides.
	Damaged []string
	// LogBytes is the size of the instance's log in each copy, and LogMaxBytes its bound, in bytes. Both are 0 if the node does not
	// report its log. Then LogBehind and LogLag say nothing.
	LogBytes, LogMaxBytes int64
	// LogBehind is how many copies of the log lag or are away, and LogLag how many changes the slowest copy lacks.
	LogBehind int
	LogLag    uint64
}
