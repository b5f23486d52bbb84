// A query to copy, for the pages of a table and of a sink.

import { h, setText } from "./dom.js";

// newQuery returns {node, show}. The node is hidden until show gets {language, query} with a query. id is of the field.
export function newQuery(app, id) {
  const field = h("textarea", { id, class: "code", rows: "4", readonly: true, spellcheck: "false" });
  const label = h("label", { for: id });
  const node = h("div", { class: "field", hidden: true }, label, field, h("p", {}, h("button", { type: "button", icon: "copy", text: "Copy", onclick: copy })));

  async function copy() {
    try {
      await navigator.clipboard.writeText(field.value);
      app.say("Copied.");
    } catch {
      field.select(); // without TLS there is no clipboard
      app.say("The query is selected: copy it.");
    }
  }

  function show({ language, query }) {
    node.hidden = !query;
    setText(label, "Query for " + language);
    if (field.value !== query) field.value = query;
  }

  return { node, show };
}
