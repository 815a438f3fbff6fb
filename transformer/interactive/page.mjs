// The script of page.html: it starts the live translator. It runs after the bundle, in the same module.
{
  const values = JSON.parse(document.getElementById("values").textContent);

  /** Decode the files of the model from base64, in slices because they can be large. */
  const decodeFiles = () => {
    const files = {};
    for (const { dataset, textContent } of document.querySelectorAll("script[data-file]")) {
      const bytes = new Uint8Array(dataset.length);
      const slice = 1 << 20; // a multiple of 4, because four characters encode three bytes
      for (let from = 0, to = 0; from < textContent.length; from += slice) {
        const part = atob(textContent.slice(from, from + slice));
        for (let i = 0; i < part.length; i++) bytes[to++] = part.charCodeAt(i);
      }
      files[dataset.file] = bytes;
    }
    return files;
  };

  values.files = { get [values.models[0].name]() { return decodeFiles(); } };
  const model = { get: (name) => values[name] };
  widgets.translator.default.render({ model, el: document.getElementById("live") });
}
