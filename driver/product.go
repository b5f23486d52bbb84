package driver

import "github.com/forebay/forebay/driverkit/buildversion"

// Product names Forebay and its version, as in "forebay/v1.2.3", for a header User-Agent or a database's application name. In a program that
// was built without a version it ends with "devel".
func Product() string { return buildversion.Product() }
