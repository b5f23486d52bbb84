package template

// Folder is where a table is.
func Folder(t Target, table string) string { return t.folder(table) }
