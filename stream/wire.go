package stream

// DefaultTableType is a literal of the wire: the value of table.type in the requests of existing clients.
const DefaultTableType = "keboola"
