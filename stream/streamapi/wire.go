package streamapi

// DefaultTableType is the value of table.type in the requests of existing clients.
const DefaultTableType = "keboola"

// plainTableType is a value of table.type that every server accepts, for clients that are not of the platform.
const plainTableType = "table"
