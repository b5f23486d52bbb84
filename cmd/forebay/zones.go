package main

// A configuration of the extractor names time zones, and so may the variable TZ. With the zones in the program, an image needs no file for
// them.
import _ "time/tzdata"
