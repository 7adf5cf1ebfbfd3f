// Fills the list of versions. `versions.js` of the site calls this function with them, newest first:
// [{name: "0.2.0", pages: ["index.html", …]}, …]. Works without a server.
window.dicoreVersions = (versions) => {
  const select = document.getElementById("versions");
  if (!select) return;
  const { version, page, root } = select.dataset;
  select.replaceChildren(...versions.map(({ name }) => new Option(name, name, false, name === version)));
  select.addEventListener("change", () => {
    const chosen = versions.find(({ name }) => name === select.value);
    const target = chosen.pages.includes(page) ? page : "index.html";
    window.location.href = `${root}../${chosen.name}/${target}`;
  });
  const newest = versions.find(({ name }) => name !== "dev");
  if (newest && newest.name !== version) {
    const note = document.createElement("p");
    note.className = "old-version";
    note.append(`These pages are of version ${version}; `);
    const link = document.createElement("a");
    link.href = `${root}../${newest.name}/index.html`;
    link.textContent = `the newest release is ${newest.name}`;
    note.append(link, ".");
    document.querySelector("article")?.prepend(note);
  }
};
