// Package parts keeps tables in folders of parts, which are files that are written once and hold the rows of one imported file, or, merged,
// of several. It has all of a [driver.Target] but the form of a part, which is a [Format]. Package buffer/dir writes CSV and package
// drivers/parquet Parquet. The documentation of buffer/dir says how folders and names look and what readers may rely on.
package parts
