"""The sentences of errors about workers, their child processes, and what is provided to handlers, by reason."""

ERRORS = {
    "annotation_unreadable": "The annotation {annotation!r} of {function} cannot be read: {problem}. Import the type "
    "at the top of the module, not only for the type checker.",
    "child_handler_unknown": "{qualname} cannot be found in the module {module}. A handler with executor='process' is "
    "imported by a fresh interpreter: declare it at the top level of a module.",
    "child_in_memory": "ctx.once in a child process cannot reach a database in the memory of another process. Use a "
    "file.",
    "child_module_missing": "a handler with executor='process' must be in a file that a child process can import, not "
    "in an interactive session or in python -c.",
    "child_without_app": "ctx.once in a child process needs the application, and the handler's module has none. "
    "Decorate the function with @app.job(…) in its own module, or import the app there.",
    "dask_address_missing": "executor='dask' does not know the scheduler. Set DASK_SCHEDULER_ADDRESS, or declare "
    "executor=DaskExecutor('tcp://scheduler:8786').",
    "executor_away": "{executor} cannot be reached: {problem}",
    "executor_extra_missing": "executor={executor!r} needs {module!r}, which is not installed. Run: pip install "
    "'horae[{extra}]'",
    "executor_not_here": "{handler} is declared with executor={executor!r}, which this process cannot use: run it in a "
    "worker of the application that declares it.",
    "executor_not_stopping": "{executor} was asked to stop {name}, and it still runs.",
    "executor_silent": "{executor} gave no answer in {seconds} seconds.",
    "factory_async": "{kind} comes from an async factory: ask with `await ctx.get_async({kind})` in an async function.",
    "factory_async_not_started": "{kind} comes from an async factory and is not made yet: start the application "
    "first, or ask with `await ctx.get_async(…)`.",
    "factory_needed": "{kind} is a value; per_run=True needs a factory that makes new ones.",
    "fault_unreadable": "HORAE_FAULT={text!r} cannot be read; write point:action:count with a point from {points} and "
    "an action from {actions}.",
    "generator_returned": "{name} returned a generator, so none of the code behind it has run. Do the work in a plain "
    "or async function, without yield, or go through the generator there.",
    "kubernetes_call_too_long": "The call has {size} bytes with its arguments, and a pod can be given {most}. Store "
    "what is large elsewhere and pass its name.",
    "kubernetes_image_missing": "executor='kubernetes' does not know the image. Set {variable}, or declare "
    "executor=KubernetesExecutor('registry/image:tag').",
    "kubernetes_url_missing": "executor='kubernetes' does not know the cluster: this process runs in none. Set "
    "{variable}, for instance to what `kubectl proxy` prints, or declare executor=KubernetesExecutor(url=…).",
    "listener_is_generator": "{name} is a generator function: calling it would run none of its code. Remove the yield.",
    "lock_manager_missing": "no lock manager is set; give the application one with app.locks = …",
    "not_provided": "Nothing provides {kind}; add app.provide({kind}, …).",
    "once_needs_database": "ctx.once({step!r}, …) keeps its result in a transaction of the database, and this worker "
    "reaches a service only. Run the worker where the database is, with --db instead of --url, or hand "
    "ctx.idempotency_key to whatever does the work.",
    "parameter_not_fillable": "{who} has a parameter {parameter!r} that cannot be filled: annotate it with a type that "
    "is provided with app.provide(…), or give it a default.",
    "remote_handler_in_main": "{handler} is declared in the program that was started, which a cluster cannot import. "
    "Declare it in a module that is installed on both sides.",
    "remote_without_store": "ctx.{verb} needs the database, which a handler on a cluster does not reach. Keep what it "
    "needs under ctx.idempotency_key in a store of your own, or declare the job with another executor.",
    "service_failed": "The service failed: {problem}",
    "service_refuses_worker": "The service refuses this worker: {problem}",
    "store_needs_database": "This process reaches a service only, and that ({name}) takes a database. Run the "
    "worker where the database is, with --db instead of --url, or use what the service offers: app.jobs, or "
    "handle.enqueue without owner and connection.",
    "worker_inside_child": "A worker cannot start inside one of its own child processes: this module starts one when "
    'it is imported. Put that behind `if __name__ == "__main__":`.',
}
