"""A run can mark its external writes, and the files that it declares are attributed to it."""

from pathlib import Path

from assent.runs.store import Runs
from tests.runs.conftest import Works


async def test_declared_writes_are_recorded_once_and_in_advance(works: Works, tmp_path: Path) -> None:
    works.write(
        "writer",
        """
        @process
        async def writer(inputs, ctx):
            await ctx.writes(inputs["path"], inputs["other"])
            asked = await ctx.breakpoint("Go on?")
            await ctx.task(Path(inputs["path"]).write_text, ctx.mark)
            return ctx.mark
        """,
    )
    folder = tmp_path / "real"
    folder.mkdir()
    link = tmp_path / "link"
    link.symlink_to(folder)
    inputs = {"path": str(link / "a.md"), "other": str(folder / "b" / ".." / "c.md")}
    run_id = await works.start("writer", inputs)
    [step] = await works.asked(run_id)
    await works.answer(step)
    run = await works.ended(run_id)
    assert run["output"] == f"assent-run:{run_id}" == (folder / "a.md").read_text()
    lines = [each for each in await works.journal(run_id) if each["type"] == "writes"]
    paths = [str(link / "a.md"), str(folder / "a.md"), str(folder / "c.md")]
    assert [line["data"]["files"] for line in lines] == [paths], "a replay must not record the files again"
    found = await works.node.assent.database.read(
        lambda tx: tx[Runs].writers([*paths, "/other"], project="default", since=0)
    )
    assert found == dict.fromkeys(paths, run_id)
    elsewhere = await works.node.assent.database.read(lambda tx: tx[Runs].writers(paths, project="other", since=0))
    assert elsewhere == {}


async def test_a_process_receives_an_instance_of_its_annotated_class(works: Works) -> None:
    works.write(
        "typed",
        """
        from dataclasses import dataclass

        @dataclass
        class Inputs:
            number: int

        @process
        async def typed(inputs: Inputs, ctx):
            return inputs.number + 1
        """,
    )
    assert (await works.ended(await works.start("typed", {"number": 1})))["output"] == 2
    failed = await works.ended(await works.start("typed", {"number": "one"}))
    assert failed["state"] == "failed"
    assert "Expected `int`, got `str`" in failed["error"]["message"]
