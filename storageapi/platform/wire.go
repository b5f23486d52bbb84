package platform

// Literals of the wire that existing clients and configurations contain.
const (
	// DefaultVariablesComponent is the id of the component whose configurations hold variables, unless
	// [Options.VariablesComponent] names a different component.
	DefaultVariablesComponent = "keboola.variables"

	cipherMark        = "KBC::"
	componentCipher   = cipherMark + "ComponentSecure::"
	projectCipher     = cipherMark + "ProjectSecure::"
	projectWideCipher = cipherMark + "ProjectWideSecure::"
	configCipher      = cipherMark + "ConfigSecure::"
)
