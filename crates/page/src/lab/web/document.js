// The document that an experiment comes from: its figures beside those that were measured, and why they differ.

function beginDocument(experiment) {
  const part = experiment.box.querySelector(".document");
  if (!experiment.beside) { part.remove(); return; }
  const { document: name, figures, differs } = experiment.beside;
  part.querySelector(".from").textContent = name;
  part.querySelector(".scroll").replaceChildren(tableOf("beside the document", ["", "document", "here"], figures.map((f) => [f.what, f.document, f.here]), "name"));
  part.querySelector(".differs").textContent = `${differs[0].toUpperCase()}${differs.slice(1)}`;
}
