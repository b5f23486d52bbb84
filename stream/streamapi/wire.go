package streamapi

// DefaultTableType is the value of table.type in the requests of existing clients.
const DefaultTableType = "keboola"
