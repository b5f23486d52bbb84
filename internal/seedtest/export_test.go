package seedtest

// PlaceOf is placeOf.
var PlaceOf = placeOf
