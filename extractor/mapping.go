package extractor

// mapping is the manual layout of a table.
type mapping struct{}

func parseMapping(s *section) *mapping { return &mapping{} }
