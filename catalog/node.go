package catalog

// Node is a node of a cluster as another one sees it. The module cluster makes it (Node.Nodes), and the console shows it
// (console.Options.Nodes).
type Node struct {
	// Name of the node, and the Instance that it takes rows for. Instance is empty if that is not known.
	Name, Instance string
	// Epoch counts the owners of the instance; 0: not known.
	Epoch uint64
	// Ready: the node takes events, and no other node would be missed. Missing says, for people, what is missing; it may quote errors.
	Ready   bool
	Missing string
	// Adopting are the instances whose rows the node moves to their tables, Adopted those of which it has done that since its start.
	Adopting, Adopted []string
	// Damaged are the instances that the node had last and that nobody adopts until an operator decides.
	Damaged []string
	// LogBytes is what the log of the instance takes in each copy, and LogMaxBytes its bound, in bytes. Both are 0 if the node does not
	// report its log; then LogBehind and LogLag say nothing.
	LogBytes, LogMaxBytes int64
	// LogBehind is how many copies of the log lag or are away, and LogLag how many changes the one that lags most lacks.
	LogBehind int
	LogLag    uint64
}
