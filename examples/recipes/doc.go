// Package recipes has the code of docs/recipes.md. Each file is one recipe, and its test runs it. Copy what you need.
package recipes
